/* What a whole process costs: user and system microseconds, wall microseconds, peak KiB.
 *
 * Usage: timed CPU PROGRAM [ARG…]. A launcher of its own, because a process inherits the peak memory of whoever forks it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long micros(struct timeval t)
{
	return t.tv_sec * 1000000 + t.tv_usec;
}

int main(int argc, char **argv)
{
	struct timespec from, to;
	struct rusage usage;
	int status;
	if (argc < 3)
		return 2;
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	if (sched_setaffinity(0, sizeof cpus, &cpus))
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &from);
	pid_t child = vfork();
	if (child == 0) {
		int null = open("/dev/null", O_RDWR);
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		execv(argv[2], argv + 2);
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &usage) < 0)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("%ld %ld %ld %d\n", micros(usage.ru_utime) + micros(usage.ru_stime),
	       (to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000, usage.ru_maxrss,
	       WIFEXITED(status) ? WEXITSTATUS(status) : 128);
	return 0;
}
