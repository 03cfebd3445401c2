// What a tensor core makes of a product of fragments, a block each: docs/proofs/rounding.md assumes how it adds, and a device tries that.
// Operands are words as registers have them, four of A, two of B and four of the sum a thread.
#include "common.cuh"

typedef uint32 Two __attribute__((ext_vector_type(2)));
typedef uint32 Four __attribute__((ext_vector_type(4)));
typedef float Sums __attribute__((ext_vector_type(4)));

KERNEL __launch_bounds__(32) probe_tf32(const Four *a, const Two *b, const Sums *c, Sums *d) {
	int i = index();
	Four x = a[i];
	Two y = b[i];
	Sums z = c[i];
	float r[4];
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
	             : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3])
	             : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(y.x), "r"(y.y), "f"(z.x), "f"(z.y), "f"(z.z), "f"(z.w));
	d[i] = Sums{r[0], r[1], r[2], r[3]};
}

KERNEL __launch_bounds__(32) probe_bf16(const Four *a, const Two *b, const Sums *c, Sums *d) {
	int i = index();
	Four x = a[i];
	Two y = b[i];
	Sums z = c[i];
	float r[4];
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
	             : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3])
	             : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(y.x), "r"(y.y), "f"(z.x), "f"(z.y), "f"(z.z), "f"(z.w));
	d[i] = Sums{r[0], r[1], r[2], r[3]};
}
