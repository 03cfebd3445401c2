// Kernels as clang compiles them, for sample_test.go. To make sample.ptx:
//
//   clang++-19 -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_80 --cuda-feature=+ptx74 -O3 -std=c++17 \
//     -ffp-contract=off -S sample.cu -o sample.ptx
#define KERNEL extern "C" __attribute__((global)) void
#define SHARED __attribute__((shared))
#define DEVICE static __attribute__((device)) inline
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long s64;
struct __attribute__((aligned(16))) float4 { float x, y, z, w; };

DEVICE int tid() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE int bid() { return __nvvm_read_ptx_sreg_ctaid_x(); }

// C = A·Bᵀ, 64×64 a block of 256 threads, 4×4 a thread.
KERNEL __attribute__((launch_bounds(256))) gemm(const float* __restrict__ A, const float* __restrict__ B, float* C, int M, int N, int K) {
	SHARED __attribute__((aligned(16))) float as[16][64];
	SHARED __attribute__((aligned(16))) float bs[16][64];
	float acc[4][4] = {};
	int t = tid(), tx = t % 16, ty = t / 16, m0 = bid() * 64, n0 = __nvvm_read_ptx_sreg_ctaid_y() * 64;
	for (int k0 = 0; k0 < K; k0 += 16) {
		for (int i = t; i < 1024; i += 256) {
			int k = i % 16, m = i / 16;
			as[k][m] = m0 + m < M && k0 + k < K ? A[(s64)(m0 + m) * K + k0 + k] : 0;
			bs[k][m] = n0 + m < N && k0 + k < K ? B[(s64)(n0 + m) * K + k0 + k] : 0;
		}
		__syncthreads();
		for (int k = 0; k < 16; k++) {
			float4 a = *(float4*)&as[k][ty * 4], b = *(float4*)&bs[k][tx * 4];
			float av[4] = {a.x, a.y, a.z, a.w}, bv[4] = {b.x, b.y, b.z, b.w};
			for (int i = 0; i < 4; i++)
				for (int j = 0; j < 4; j++) acc[i][j] = __builtin_fmaf(av[i], bv[j], acc[i][j]);
		}
		__syncthreads();
	}
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 4; j++) {
			int m = m0 + ty * 4 + i, n = n0 + tx * 4 + j;
			if (m < M && n < N) C[(s64)m * N + n] = acc[i][j];
		}
}

// Sums of 256 numbers by shuffles, then shared memory; also the largest lane above 0 by a ballot.
KERNEL sums(const float* x, float* out, int* most) {
	SHARED float part[8];
	float v = x[bid() * 256 + tid()];
	u32 above = __nvvm_vote_ballot_sync(~0u, v > 0);
	for (int d = 16; d; d >>= 1) v += __nvvm_shfl_sync_down_f32(~0u, v, d, 31);
	if (tid() % 32 == 0) {
		part[tid() / 32] = v;
		most[bid() * 8 + tid() / 32] = 31 - __builtin_clz(above);
	}
	__syncthreads();
	if (tid() == 0) {
		float s = 0;
		for (int i = 0; i < 8; i++) s += part[i];
		out[bid()] = s;
	}
}

// Counts of bytes: shared atomics, then global ones.
KERNEL histogram(const unsigned char* x, int n, u32* counts, u64* total) {
	SHARED u32 c[256];
	c[tid()] = 0;
	__syncthreads();
	for (int i = bid() * 256 + tid(); i < n; i += 256 * __nvvm_read_ptx_sreg_nctaid_x()) __atomic_fetch_add(&c[x[i]], 1, __ATOMIC_RELAXED);
	__syncthreads();
	if (c[tid()]) __atomic_fetch_add(&counts[tid()], c[tid()], __ATOMIC_RELAXED);
	__atomic_fetch_add(total, (u64)c[tid()], __ATOMIC_RELAXED);
}

// A little machine: loops and a switch that differ between lanes, with a stack in local memory.
KERNEL machine(const int* program, int n, int* out) {
	int stack[16];
	for (int i = 0; i < 16; i++) stack[i] = i;
	int top = 0, x = tid();
	for (int i = 0; i < n; i++) {
		switch (program[(i + tid()) % n]) {
		case 0: x += 3; break;
		case 1: x *= 5; break;
		case 2: stack[top++ & 15] = x; break;
		case 3: x ^= stack[--top & 15]; break;
		case 4: while (x & 3) x += 7; break;
		case 5: x = x < 0 ? -x : x >> 1; break;
		case 6: if (x % 7 == 0) goto done; break;
		default: x = ~x;
		}
	}
done:
	out[bid() * __nvvm_read_ptx_sreg_ntid_x() + tid()] = x + stack[x & 15];
}

// Rows by cp.async in two stages; every thread reads what its neighbour copied.
KERNEL pipeline(const float* x, float* out, int rows) {
	SHARED __attribute__((aligned(16))) float buf[2][128];
	typedef __attribute__((address_space(3))) void* S;
	typedef const __attribute__((address_space(1))) void* G;
	int t = tid();
	float s = 0;
	__nvvm_cp_async_cg_shared_global_16((S)&buf[0][4 * t], (G)(x + 4 * t));
	__nvvm_cp_async_commit_group();
	for (int r = 0; r < rows; r++) {
		if (r + 1 < rows) __nvvm_cp_async_cg_shared_global_16((S)&buf[(r + 1) % 2][4 * t], (G)(x + 128 * (r + 1) + 4 * t));
		__nvvm_cp_async_commit_group();
		__nvvm_cp_async_wait_group(1);
		__syncthreads();
		for (int i = 0; i < 4; i++) s += buf[r % 2][(4 * t + i + 64) % 128];
		__syncthreads();
	}
	out[t] = s;
}

DEVICE u32 tf(float x) { u32 r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x)); return r; }

// D = A·B of 16×8 and 8×8 on tensor cores.
KERNEL tensor(const float* a, const float* b, float* d) {
	int g = tid() / 4, t = tid() % 4;
	u32 a0 = tf(a[g * 8 + t]), a1 = tf(a[(g + 8) * 8 + t]), a2 = tf(a[g * 8 + t + 4]), a3 = tf(a[(g + 8) * 8 + t + 4]);
	u32 b0 = tf(b[t * 8 + g]), b1 = tf(b[(t + 4) * 8 + g]);
	float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
		: "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
	d[g * 8 + 2 * t] = c0;
	d[g * 8 + 2 * t + 1] = c1;
	d[(g + 8) * 8 + 2 * t] = c2;
	d[(g + 8) * 8 + 2 * t + 1] = c3;
}

struct Pair { int n; float scale; double offset; float weights[6]; };
__attribute__((constant)) float powers[8] = {1, 2, 4, 8, 16, 32, 64, 128};
__attribute__((device)) int calls;

// A structure as a parameter, constant memory, double precision, a root.
KERNEL mixed(Pair p, const double* x, double* y, float* z) {
	int t = tid();
	y[t] = __builtin_fma(x[t], (double)p.scale, p.offset) + p.weights[t % 6] * powers[t % 8];
	z[t] = (float)t / p.n + __nvvm_sqrt_rn_f((float)t);
	if (t == 0) calls += 1;
}
