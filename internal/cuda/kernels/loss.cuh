// The gradient of an example's loss at its logits, by a warp.
#pragma once
#include "lanes.cuh"
#include "real.cuh"
#include "target.cuh"

// A softmax over z, with the share of the target apart from the rest: where the network is sure, 1 minus a probability
// that is almost 1 would cancel. Lane t has classes t, t + 32, ….
struct Softmax {
	double top, rest, at; // the largest logit; the sum of exp(z-top) without the target's; the target's
	double own;           // exp(z-top) of the lane's first class
};

static __device__ __forceinline__ Softmax softmax(const float *z, int outputs, int target) {
	int t = ownLane();
	float mine = t < outputs ? z[t] : -__builtin_inff(), most = mine;
	for (int i = t + 32; i < outputs; i += 32)
		most = __builtin_fmaxf(most, z[i]); // a NaN shows below
#pragma unroll
	for (int half = 16; half > 0; half /= 2)
		most = __builtin_fmaxf(most, from(half, most));
	Softmax s;
	s.top = most > -__builtin_inff() ? most : -__builtin_inff(); // also of NaN alone
	s.own = t < outputs ? exp((double)mine - s.top) : 0;
	double rest = t == target ? 0 : s.own, at = t == target ? s.own : 0;
	for (int i = t + 32; i < outputs; i += 32) {
		double e = exp((double)z[i] - s.top);
		if (i == target)
			at = e;
		else
			rest += e;
	}
	s.rest = laneSum(rest);
	s.at = halves(sent(lower(at), target), sent(upper(at), target));
	return s;
}

// scalarLoss is the loss of one logit, and its slope.
static __device__ double scalarLoss(int loss, double z, double t, double *slope) {
	if (z != z) // a piece that is constant in z would hide it
		return *slope = z;
	double m;
	switch (loss) {
	case Logistic:
		m = t * z; // log(1+exp(-m)), without overflow on either side
		*slope = -t / (1 + exp(m));
		return (m < 0 ? -m : 0) + log1p(exp(-fabs(m)));
	case Hinge:
		m = 1 - t * z;
		*slope = m > 0 ? -t : 0;
		return m > 0 ? m : 0;
	case HuberHinge: {
		const double h = 0.5;
		m = 1 - t * z;
		if (m <= -h) {
			*slope = 0;
			return 0;
		}
		if (m < h) {
			*slope = -t * (m + h) / (2 * h);
			return (m + h) * (m + h) / (4 * h);
		}
		*slope = -t;
		return m;
	}
	default: { // Huber
		double r = z - t;
		if (fabs(r) <= 1) {
			*slope = r;
			return r * r / 2;
		}
		*slope = r / fabs(r);
		return fabs(r) - 0.5;
	}
	}
}

// lossGrad is LossGrad of one live example; delta may be z.
static __device__ __forceinline__ void lossGrad(int loss, int outputs, const float *z, float target, float *delta) {
	int t = ownLane();
	if (!accepted(loss, outputs, target)) {
		for (int i = t; i < outputs; i += 32)
			delta[i] = 0;
		return;
	}
	if (loss != SoftmaxCrossEntropy) {
		double slope;
		if (t == 0) {
			scalarLoss(loss, z[0], target, &slope);
			delta[0] = (float)slope;
		}
		return;
	}
	Softmax s = softmax(z, outputs, (int)target);
	double sum = s.rest + s.at;
	for (int i = t; i < outputs; i += 32) {
		double part = i == t ? s.own : exp((double)z[i] - s.top);
		delta[i] = (float)((i == (int)target ? -s.rest : part) / sum);
	}
}
