// Exceptions thrown through frames, virtual calls, longjmp out of recursion.
#include <cstdio>
#include <stdexcept>
#include <vector>
#include <string>
#include <csetjmp>
struct B{virtual int f(int)=0;};struct D:B{int f(int x)override{if(x%7==0)throw std::runtime_error("x");return x+1;}};struct E:B{int f(int x)override{return x*2;}};
__attribute__((noinline)) int deep(B*b,int n,int x){ std::string s("abc"); if(n==0) return b->f(x); return deep(b,n-1,x)+s.size(); }
jmp_buf jb; __attribute__((noinline)) void lj(int n){ if(n==0) longjmp(jb,1); lj(n-1); asm(""); }
int main(){ B*v[2]={new D,new E}; int s=0; for(int i=0;i<70;i++){ try{ s+=deep(v[i&1],5,i);}catch(std::exception&e){s-=1;} if(!setjmp(jb)) lj(3); else s++; } printf("%d\n",s);}
