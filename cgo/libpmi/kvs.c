/* Keys and values. */
#include "client.h"

#include <stdlib.h>
#include <string.h>

/* A job of one rank keeps what it puts. The newest comes first, so that of each key the last is found. */
struct pair {
	struct pair *next;
	char *value;	/* behind the key */
	char key[];
};

static struct pair *own;

API int PMI_KVS_Get_name_length_max(int *length)
{
	return give(length, name_room);
}

API int PMI_KVS_Get_key_length_max(int *length)
{
	return give(length, client.key_max + 1);
}

API int PMI_KVS_Get_value_length_max(int *length)
{
	return give(length, client.value_max + 1);
}

API int PMI_Get_id_length_max(int *length)
{
	return give(length, name_room);
}

API int PMI_KVS_Get_my_name(char kvsname[], int length)
{
	return is_open() ? copy(kvsname, length, client.space, strlen(client.space)) : PMI_ERR_INIT;
}

API int PMI_Get_id(char id[], int length)
{
	return PMI_KVS_Get_my_name(id, length);
}

API int PMI_Get_kvs_domain_id(char id[], int length)
{
	return PMI_KVS_Get_my_name(id, length);
}

API int PMI_KVS_Create(char kvsname[], int length)
{
	(void)kvsname;
	(void)length;
	return PMI_FAIL;
}

API int PMI_KVS_Destroy(const char kvsname[])
{
	(void)kvsname;
	return PMI_FAIL;
}

/* pair_wrong says what is wrong with a space and a key, and with a value unless it is NULL. */
static int pair_wrong(const char *kvsname, const char *key, const char *value)
{
	if (!is_open())
		return PMI_ERR_INIT;
	if (!kvsname || strcmp(kvsname, client.space))
		return PMI_ERR_INVALID_ARG;
	if (!key || !*key || strpbrk(key, " =\t\r\n"))
		return PMI_ERR_INVALID_KEY;
	if (strlen(key) > (size_t)client.key_max)
		return PMI_ERR_INVALID_KEY_LENGTH;
	if (value && strchr(value, '\n'))
		return PMI_ERR_INVALID_VAL;
	if (value && strlen(value) > (size_t)client.value_max)
		return PMI_ERR_INVALID_VAL_LENGTH;
	return PMI_SUCCESS;
}

/* find looks among what a job of one has put. */
static struct pair *find(const char *key)
{
	struct pair *p = own;
	while (p && strcmp(p->key, key))
		p = p->next;
	return p;
}

static int keep(const char *key, const char *value)
{
	size_t keyed = strlen(key) + 1, valued = strlen(value) + 1;
	struct pair *p = malloc(sizeof *p + keyed + valued);
	if (!p)
		return PMI_ERR_NOMEM;
	memcpy(p->key, key, keyed);
	p->value = memcpy(p->key + keyed, value, valued);
	p->next = own;
	own = p;
	return PMI_SUCCESS;
}

void forget_pairs(void)
{
	for (struct pair *p; (p = own); free(p))
		own = p->next;
}

API int PMI_KVS_Put(const char kvsname[], const char key[], const char value[])
{
	char *line;
	int err = value ? pair_wrong(kvsname, key, value) : PMI_ERR_INVALID_VAL;
	if (err)
		return err;
	return client.state == alone ? keep(key, value) : ask("put_result", &line, "cmd=put kvsname=%s key=%s value=%s\n", client.space, key, value);
}

API int PMI_KVS_Commit(const char kvsname[])
{
	return pair_wrong(kvsname, "any", NULL);	/* the launcher has it already */
}

API int PMI_KVS_Get(const char kvsname[], const char key[], char value[], int length)
{
	char *line, *found;
	size_t n;
	int err = pair_wrong(kvsname, key, NULL);
	if (err)
		return err;
	if (client.state == alone) {
		struct pair *p = find(key);
		return p ? copy(value, length, p->value, strlen(p->value)) : PMI_FAIL;
	}
	err = ask("get_result", &line, "cmd=get kvsname=%s key=%s\n", client.space, key);
	if (err)
		return err;
	found = field(line, "value", &n);
	return found ? copy(value, length, found, n) : PMI_FAIL;
}
