/* Code that is written while it runs: in place, behind changes of protection, through a second mapping,
   remapped, in the next instruction, and a trampoline on the stack. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
typedef int(*fn)(void);
static void put(unsigned char*p,int v){p[0]=0xb8;memcpy(p+1,&v,4);p[5]=0xc3;}
int main(){
 unsigned char*p=mmap(0,8192,PROT_READ|PROT_WRITE|PROT_EXEC,MAP_PRIVATE|MAP_ANONYMOUS,-1,0);
 for(int i=0;i<60;i++){put(p,i);if(((fn)p)()!=i)return 1;}
 for(int i=0;i<20;i++){put(p+100,i);for(int j=0;j<20;j++) if(((fn)(p+100))()!=i)return 2;}
 unsigned char*q=mmap(0,4096,PROT_READ|PROT_WRITE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0);
 for(int i=0;i<30;i++){mprotect(q,4096,PROT_READ|PROT_WRITE);put(q+(i%3)*64,i);mprotect(q,4096,PROT_READ|PROT_EXEC);for(int j=0;j<60;j++)if(((fn)(q+(i%3)*64))()!=i)return 3;}
 int fd=memfd_create("x",0);ftruncate(fd,4096);unsigned char*w=mmap(0,4096,PROT_READ|PROT_WRITE,MAP_SHARED,fd,0),*x=mmap(0,4096,PROT_READ|PROT_EXEC,MAP_SHARED,fd,0);
 for(int i=0;i<30;i++){put(w,i);for(int j=0;j<10;j++)if(((fn)x)()!=i)return 4;}
 for(int i=0;i<20;i++){unsigned char*m=mmap(p,4096,PROT_READ|PROT_WRITE|PROT_EXEC,MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED,-1,0);put(m,i);mprotect(m,4096,PROT_READ|PROT_EXEC);if(((fn)m)()!=i)return 5;munmap(m,4096);}
 // next-instruction SMC: mov byte [rip+x], imm ; the immediate of the next mov is changed
 unsigned char*s=mmap(0,4096,PROT_READ|PROT_WRITE|PROT_EXEC,MAP_PRIVATE|MAP_ANONYMOUS,-1,0);
 unsigned char code[]={0xc6,0x05,1,0,0,0,42, 0xb8,1,0,0,0, 0xc3}; memcpy(s,code,sizeof code);
 for(int i=0;i<20;i++){s[8]=7; s[6]=i; int r=((fn)s)(); if(r!=i){printf("smc %d %d\n",i,r);return 6;}}
 int k=5; int nested(int z){return z+k;} int(*volatile np)(int)=nested; if(np(3)!=8)return 7;
 puts("OK");return 0;}
