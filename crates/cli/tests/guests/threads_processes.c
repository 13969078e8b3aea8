/* Threads, short-lived threads, fork, posix_spawn (also of a program that does not exist), vfork,
   system. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
#include <spawn.h>
#include <string.h>
#include <errno.h>
extern char**environ;
__attribute__((noinline)) long fib(long n){return n<2?n:fib(n-1)+fib(n-2);}
pthread_mutex_t m=PTHREAD_MUTEX_INITIALIZER; long tot;
void*w(void*a){long r=fib((long)a);pthread_mutex_lock(&m);tot+=r;pthread_mutex_unlock(&m);return (void*)r;}
void*nop(void*a){return a;}
int main(){pthread_t t[8];for(int i=0;i<8;i++)pthread_create(&t[i],0,w,(void*)(12L));for(int i=0;i<8;i++)pthread_join(t[i],0);printf("%ld\n",tot);
for(int i=0;i<40;i++){pthread_create(&t[0],0,nop,0);pthread_join(t[0],0);}
pid_t p=fork(); if(!p){printf("child %ld\n",fib(10));fflush(stdout);_exit(7);} int st; waitpid(p,&st,0); printf("st %x\n",st);
fflush(stdout); char*av[]={"echo","spawned",0}; int e=posix_spawnp(&p,"echo",0,0,av,environ); waitpid(p,&st,0); printf("spawn %d st %x\n",e,st);
char*bv[]={"nonexist",0}; e=posix_spawnp(&p,"nonexistent-prog",0,0,bv,environ); printf("spawn %s\n",strerror(e));
fflush(stdout); p=vfork(); if(!p){execl("/bin/echo","echo","vforked",(char*)0);_exit(9);} waitpid(p,&st,0); printf("st %x sys %d\n",st,system("echo sys; exit 4"));
for(int i=0;i<5;i++){p=fork(); if(!p)_exit(i); waitpid(p,&st,0); if(st!=i<<8)abort();}
puts("OK");}
