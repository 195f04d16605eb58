// A process whose first thread ends, and whose second one does not.
#include <pthread.h>
#include <unistd.h>

static void *stay(void *unused)
{
	for (;;)
		pause();
	return unused;
}

int main(void)
{
	pthread_t second;
	if (pthread_create(&second, NULL, stay, NULL))
		return 1;
	pthread_exit(NULL);
}
