package exact

import (
	"math"
	"math/big"
)

// slow gives |round(s·Z)| for a V of 63 digits v and as many of 512 more as it needs.
func (g *Sampler) slow(v uint64, more *[digitBytes]byte) int64 {
	all := wholeOf(v, more)
	if g.end.reached(all) {
		return int64(g.end.most * g.std)
	}
	k := g.guess(all)
	for digits := uint(wordDigits + 128); digits <= mostDigits; digits += 64 {
		known := new(big.Int).Rsh(all, mostDigits-digits)
		for {
			upper, lower := g.above(k, known, digits), yes
			if k > 0 {
				lower = g.above(k-1, known, digits)
			}
			if upper == no && lower == yes {
				return k
			}
			if upper == yes {
				k++
			} else if lower == no {
				k--
			} else {
				break
			}
		}
	}
	return k
}

// wholeOf gives all digits of V as an integer.
func wholeOf(v uint64, more *[digitBytes]byte) *big.Int {
	all := new(big.Int).SetUint64(v)
	all.Lsh(all, 8*digitBytes)
	return all.Or(all, new(big.Int).SetBytes(more[:]))
}

type answer int

const (
	unknown answer = iota
	yes
	no
)

// above says whether s·|Z| lies above k + ½, which is whether V, of which some digits are
// known, lies below the tail of (k+½)/s.
func (g *Sampler) above(k int64, known *big.Int, digits uint) answer {
	prec := digits + guard
	x := new(big.Float).SetPrec(prec).SetInt64(2*k + 1)
	x.Quo(x, g.wide)
	x.SetMantExp(x, -1)
	if x.Cmp(big.NewFloat(g.end.most)) > 0 {
		return no // slow has seen that V is not as small
	}
	boundary, margin := g.law.tail(x), tailError(prec)
	margin.Add(margin, big.NewFloat(g.slack).SetPrec(prec))
	from, to := fractions(known, digits)
	switch {
	case to.Add(to, margin).Cmp(boundary) <= 0:
		return yes
	case from.Sub(from, margin).Cmp(boundary) >= 0:
		return no
	}
	return unknown
}

// fractions are n and n+1 in units of 2^-digits.
func fractions(n *big.Int, digits uint) (from, to *big.Float) {
	at := func(n *big.Int) *big.Float {
		x := new(big.Float).SetPrec(digits + guard).SetInt(n)
		return x.SetMantExp(x, -int(digits))
	}
	return at(n), at(new(big.Int).Add(n, big.NewInt(1)))
}

// guess is close to the answer.
func (g *Sampler) guess(all *big.Int) int64 {
	v, _ := new(big.Float).SetMantExp(new(big.Float).SetInt(all), -mostDigits).Float64()
	return int64(math.Round(g.std * g.law.inverse(v, g.end.most)))
}
