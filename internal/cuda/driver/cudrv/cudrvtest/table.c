//go:build gocuda && cgo && linux

#include "_cgo_export.h"

#define CALL(name) {"cu" #name, (void *)fake##name}

static const struct {
	const char *name;
	void *function;
} calls[] = {
	CALL(DriverGetVersion), CALL(GetErrorName), CALL(DeviceGet), CALL(DeviceGetCount), CALL(DeviceGetName), CALL(DeviceTotalMem),
	CALL(DeviceGetAttribute), CALL(CtxCreate), CALL(CtxDestroy), CALL(CtxSetCurrent), CALL(DevicePrimaryCtxRetain), CALL(DevicePrimaryCtxRelease), CALL(MemGetInfo), CALL(MemAlloc), CALL(MemFree), CALL(MemHostAlloc),
	CALL(MemHostGetDevicePointer), CALL(MemFreeHost), CALL(MemcpyHtoD), CALL(MemcpyDtoH), CALL(ModuleLoadDataEx), CALL(ModuleUnload),
	CALL(ModuleGetFunction), CALL(FuncSetAttribute), CALL(LaunchKernel), CALL(StreamCreate), CALL(StreamDestroy),
	CALL(StreamSynchronize), CALL(StreamQuery), CALL(MemsetD32Async), CALL(EventCreate), CALL(EventDestroy), CALL(EventRecord), CALL(EventRecordWithFlags), CALL(EventElapsedTime),
	CALL(EventQuery), CALL(EventSynchronize), CALL(StreamBeginCapture), CALL(StreamEndCapture), CALL(GraphInstantiate),
	CALL(GraphDestroy), CALL(GraphLaunch), CALL(GraphExecDestroy),
};

const char *cudrvtest_name(int i)
{
	return i < (int)(sizeof calls / sizeof *calls) ? calls[i].name : NULL;
}

void *cudrvtest_function(int i)
{
	return calls[i].function;
}

#define BLAS(name) {#name, (void *)fakeblas##name}

static const struct {
	const char *name;
	void *function;
} blas[] = {
	BLAS(GetProperty), BLAS(Create), BLAS(Destroy), BLAS(SetStream), BLAS(SetWorkspace), BLAS(SetMathMode), BLAS(SetAtomicsMode), BLAS(GemmEx),
	BLAS(GemmStridedBatchedEx),
};

const char *cudrvtest_blas_name(int i)
{
	return i < (int)(sizeof blas / sizeof *blas) ? blas[i].name : NULL;
}

void *cudrvtest_blas_function(int i)
{
	return blas[i].function;
}

#define NCCL(name) {#name, (void *)fakenccl##name}

static const struct {
	const char *name;
	void *function;
} nccl[] = {
	NCCL(GetVersion), NCCL(GetUniqueId), NCCL(CommInitRankConfig), NCCL(CommGetAsyncError), NCCL(CommAbort), NCCL(AllReduce), NCCL(Broadcast),
};

const char *cudrvtest_nccl_name(int i)
{
	return i < (int)(sizeof nccl / sizeof *nccl) ? nccl[i].name : NULL;
}

void *cudrvtest_nccl_function(int i)
{
	return nccl[i].function;
}
