package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
)

// flatBlock parameters go through noise and update at a time, in a worker's cache.
const flatBlock = 4096

func (n *net) Apply(r *host.Release[float32], u *host.Update[float32]) {
	size := 0
	if r != nil {
		size = len(r.Dst)
	} else {
		size = len(u.P)
	}
	n.applying.release, n.applying.update = r, u
	n.workers.do((size+flatBlock-1)/flatBlock, n.apply)
	n.applying.release, n.applying.update = nil, nil
}

func (n *net) applyBlock(tile int, w *worker) {
	lo := tile * flatBlock
	if r := n.applying.release; r != nil {
		hi := min(lo+flatBlock, len(r.Dst))
		if u := n.applying.update; u != nil {
			// They come into the cache while noise is drawn, which waits little for memory.
			vec.Prefetch(u.P[lo:hi])
			for _, state := range u.State {
				vec.Prefetch(state[lo:hi])
			}
		}
		host.ReleaseTo(r.Sampler, r.Dst[lo:hi], r.Src[lo:hi], r.Step, r.Draw, lo)
	}
	if u := n.applying.update; u != nil {
		update(u, lo, min(lo+flatBlock, len(u.P)), w)
	}
}

// update applies a rule (device.Rule) to parameters lo to hi.
func update(u *host.Update[float32], lo, hi int, w *worker) {
	p, s := u.P[lo:hi], &u.Scalars
	rate := s[device.Rate]
	if u.Rule == device.SGD {
		vec.Descend(p, -rate, s[device.Scale], u.G[lo:hi], s[device.L2])
		return
	}
	d := w.scratch(len(p))
	if u.Rule == device.Average {
		// The difference, and not (1 − Blend)·p: 1 − Blend in float32 would pull
		// long averages towards 0.
		if s[device.Blend] == 1 {
			copy(p, u.G[lo:hi])
			return
		}
		vec.Mix(d, 1, u.G[lo:hi], -1, p)
		vec.Axpy(p, s[device.Blend], d)
		return
	}
	decay := s[device.L2]
	if u.Rule == device.AdamW {
		vec.Axpy(p, -rate*decay, p)
		decay = 0
	}
	vec.Mix(d, s[device.Scale], u.G[lo:hi], decay, p)
	if u.Rule == device.HeavyBall {
		m := u.State[0][lo:hi]
		vec.Mix(m, s[device.Momentum], m, 1, d)
		vec.Axpy(p, -rate, m)
		return
	}
	m, v := u.State[0][lo:hi], u.State[1][lo:hi]
	vec.Mix(m, s[device.Beta1], m, 1-s[device.Beta1], d)
	vec.MixSquares(v, s[device.Beta2], 1-s[device.Beta2], d)
	vec.Adam(p, rate/s[device.Bias1], m, 1/s[device.Bias2], v, s[device.Variance], s[device.Floor], s[device.Epsilon])
}
