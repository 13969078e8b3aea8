/* Signals: handlers, a fault left by a jump, an edited context, a timer in call-heavy code, interrupted
   system calls, masks, and an end by a signal. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/time.h>
#include <setjmp.h>
#include <errno.h>
#include <ucontext.h>
volatile int n; sigjmp_buf jb;
void h(int s){n++;}
void seg(int s,siginfo_t*i,void*u){ if(i->si_addr!=(void*)0x123)abort(); siglongjmp(jb,1);}
void ill(int s,siginfo_t*i,void*u){ ucontext_t*c=u; c->uc_mcontext.gregs[REG_RIP]+=2; n=77;}
__attribute__((noinline)) long fib(long n){return n<2?n:fib(n-1)+fib(n-2);}
int main(){
 signal(SIGUSR1,h); raise(SIGUSR1); if(n!=1)return 1;
 struct sigaction sa={0}; sa.sa_sigaction=seg; sa.sa_flags=SA_SIGINFO; sigaction(SIGSEGV,&sa,0);
 if(!sigsetjmp(jb,1)){*(volatile int*)0x123=1;return 2;}
 sa.sa_sigaction=ill; sigaction(SIGILL,&sa,0); asm volatile("ud2"); if(n!=77)return 3;
 struct itimerval it={{0,1000},{0,1000}}; n=0; signal(SIGALRM,h); setitimer(ITIMER_REAL,&it,0);
 long r=0; while(n<10) r=fib(12); printf("fib %ld\n",r);
 n=0; while(n<5) pause();
 n=0; while(n<5){ struct timespec ts={1,0}; errno=0; if(nanosleep(&ts,&ts)!=-1||errno!=EINTR)return 5;}
 memset(&it,0,sizeof it); setitimer(ITIMER_REAL,&it,0);
 sigset_t s,o; sigemptyset(&s); sigaddset(&s,SIGUSR2); sigprocmask(SIG_BLOCK,&s,&o); signal(SIGUSR2,h); n=0; kill(getpid(),SIGUSR2); if(n)return 6; sigsuspend(&o); if(n!=1) return 7; 
 if(sigismember(&o,SIGUSR2)) return 8; sigset_t q; sigprocmask(SIG_SETMASK,0,&q); if(!sigismember(&q,SIGUSR2))return 9;
 puts("OK"); fflush(stdout); raise(SIGTERM); return 0;}
