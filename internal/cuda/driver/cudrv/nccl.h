/*
 * The calls of NCCL that this package makes, from the library's reference, as cublas.h
 * has those of cuBLAS. They are there from version 2.14 on.
 */
#include <stddef.h>

/* It goes by value. */
typedef struct { char bytes[128]; } nccl_id;

/*
 * What a communicator is told: the first fields of the library's own structure, which
 * says by its size and version that later ones are not there.
 */
typedef struct {
	size_t size;
	unsigned magic, version;
	int blocking;
} nccl_config;

#define NCCL_CALLS \
	NCCL(GetVersion, (int *version), (version)) \
	NCCL(GetUniqueId, (nccl_id *id), (id)) \
	NCCL(CommInitRankConfig, (void **rank, int size, nccl_id id, int number, nccl_config *config), (rank, size, id, number, config)) \
	NCCL(CommGetAsyncError, (void *rank, int *result), (rank, result)) \
	NCCL(CommAbort, (void *rank), (rank)) \
	NCCL(AllReduce, (const void *from, void *to, size_t n, int type, int operation, void *rank, void *stream), \
	     (from, to, n, type, operation, rank, stream)) \
	NCCL(Broadcast, (const void *from, void *to, size_t n, int type, int root, void *rank, void *stream), \
	     (from, to, n, type, root, rank, stream))

#define NCCL(name, params, args) int nccl_##name params;
NCCL_CALLS
#undef NCCL

/* What went wrong last, in the library's words; "" where they are not known. */
const char *nccl_last_error(void);

enum {
	NCCL_SUCCESS = 0,
	NCCL_SYSTEM_ERROR = 2,
	NCCL_IN_PROGRESS = 7,
	NCCL_UINT8 = 1,
	NCCL_SUM = 0,
};

/* Opens libnccl.so.2; 0, or what is wrong in why. */
int nccl_bind(char *why, size_t size);

/* Like cudrv_replace. */
int nccl_replace(const char *name, void *function);

/* CommInitRankConfig of a rank whose calls wait for no other rank; the id has 128 bytes. */
int nccl_join(void **rank, int size, const void *id, int number);

/* The name of a new group, of 128 bytes. */
int nccl_name(void *id);
