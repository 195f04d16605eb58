/* What verbs return, as a negative errno. */
#ifndef IBRUN_RESULT_H
#define IBRUN_RESULT_H

#include <errno.h>

/* The errno of a call that returned NULL or -1, negative: never 0. */
static inline int failure(void)
{
	return errno > 0 ? -errno : -EIO;
}

/* Most calls return a positive errno; some return -1 and set it. */
static inline int result(int rc)
{
	if (rc == 0)
		return 0;
	return rc > 0 ? -rc : failure();
}

#endif
