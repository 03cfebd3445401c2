// Units of 16 bytes, which kernels between products read, compute in float32 and write.
#pragma once
#include "pixels.cuh"

// Plain is the element of planes: float32, which nobody rounds.
struct Plain {
	typedef float Element;
	static constexpr int UNIT = 4;
	static __device__ __forceinline__ float rounded(float x) { return x; }
	static __device__ __forceinline__ float get(const Element *x) { return *x; }
	static __device__ __forceinline__ void put(Element *to, float x) { *to = x; }
};

// Single is the same where neighbours cannot be read at once.
struct Single : Plain {
	static constexpr int UNIT = 1;
};

template <class E> static __device__ __forceinline__ void load(const typename E::Element *from, float (&x)[E::UNIT]) {
	if constexpr (E::UNIT == EIGHT) {
		E::unpack(from, x);
	} else if constexpr (E::UNIT == 1) {
		x[0] = *from;
	} else {
		float4 v = *(const float4 *)from;
#pragma unroll
		for (int i = 0; i < 4; i++)
			x[i] = v[i];
	}
}

template <class E> static __device__ __forceinline__ void store(typename E::Element *to, const float (&x)[E::UNIT]) {
	if constexpr (E::UNIT == EIGHT) {
		E::pack(to, x);
	} else if constexpr (E::UNIT == 1) {
		*to = x[0];
	} else {
		float4 v;
#pragma unroll
		for (int i = 0; i < 4; i++)
			v[i] = E::rounded(x[i]);
		*(float4 *)to = v;
	}
}

// give stores, or adds to what is there and rounds the sum.
template <class E> static __device__ __forceinline__ void give(typename E::Element *to, float (&x)[E::UNIT], int add) {
	if (add) {
		float before[E::UNIT];
		load<E>(to, before);
#pragma unroll
		for (int i = 0; i < E::UNIT; i++)
			x[i] += before[i];
	}
	store<E>(to, x);
}

template <int N> static __device__ __forceinline__ void clear(float (&x)[N]) {
#pragma unroll
	for (int i = 0; i < N; i++)
		x[i] = 0;
}
