/* The folder with the control sockets of this user's jobs. */
#ifndef IBRUN_TOOL_FOLDER_H
#define IBRUN_TOOL_FOLDER_H

/* folder_dial calls the job with an ID, and folder_find the one that a word means (ib_open). -1: said. */
int folder_dial(const char *id);
int folder_find(const char *word);

#endif
