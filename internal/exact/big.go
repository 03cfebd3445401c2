package exact

import (
	"math/big"
	"sync"
)

// tail gives P(|Z| > x) of a normal, 0 ≤ x ≤ farEnd.most + 1, at the precision of x
// and within tailError: 1 - 2φ(x)·Σ x²ᵏ⁺¹/(1·3·…·(2k+1)), whose terms are all positive.
func tail(x *big.Float) *big.Float {
	prec := x.Prec()
	sum := powerSeries(x, new(big.Float).Mul(x, x), 3, 2)
	sum.Mul(sum, big.NewFloat(2))
	sum.Quo(sum, exponential(halfSquare(x)))
	sum.Quo(sum, rootTwoPi(prec))
	return sum.Sub(big.NewFloat(1).SetPrec(prec), sum)
}

// tailError bounds the error of a tail: below 2¹¹ terms make below 2¹⁴ roundings of a
// sum that is at most 1 in the end, and what is left of the series is below 2^(4-prec).
func tailError(prec uint) *big.Float {
	return new(big.Float).SetMantExp(big.NewFloat(1), 20-int(prec))
}

// powerSeries gives first·(1 + x/d + x²/(d(d+s)) + x³/(d(d+s)(d+2s)) + …), x ≥ 0, at
// the precision of x. It ends where the terms that follow, each at most half the one
// before, add up to less than 2^(4-prec).
func powerSeries(first, x *big.Float, d, s int64) *big.Float {
	twice, divisor := new(big.Float).Mul(x, big.NewFloat(2)), new(big.Float)
	// A product or a sum takes new memory where it overwrites what it is made of, so two of each take turns.
	term, product := new(big.Float).Set(first), new(big.Float)
	total, sum := new(big.Float).Set(first), new(big.Float)
	for ; ; d += s {
		divisor.SetInt64(d)
		if twice.Cmp(divisor) <= 0 && (term.Sign() == 0 || term.MantExp(nil) < 3-int(x.Prec())) {
			return total
		}
		term, product = product.Mul(term, x), term
		term.Quo(term, divisor)
		total, sum = sum.Add(total, term), total
	}
}

func halfSquare(x *big.Float) *big.Float {
	y := new(big.Float).Mul(x, x)
	return y.SetMantExp(y, -1)
}

// exponential gives exp(y), y ≥ 0, by its series.
func exponential(y *big.Float) *big.Float {
	return powerSeries(big.NewFloat(1).SetPrec(y.Prec()), y, 1, 1)
}

// mostDigits is how many digits of V a draw can have: a word's and a block's.
const mostDigits = wordDigits + 8*digitBytes

// guard is how much finer than V its tail function is computed.
const guard = 64

var rootTwoPiMost = sync.OnceValue(func() *big.Float {
	const prec = mostDigits + 2*guard
	// Machin: π = 16·atan(1/5) - 4·atan(1/239), in units of 2^-prec.
	pi := new(big.Int).Mul(big.NewInt(16), inverseTangent(5, prec))
	pi.Sub(pi, new(big.Int).Mul(big.NewInt(4), inverseTangent(239, prec)))
	x := new(big.Float).SetPrec(prec).SetInt(pi)
	return x.Sqrt(x.SetMantExp(x, 1-prec))
})

// rootTwoPi gives sqrt(2π), for precisions up to mostDigits + 2·guard.
func rootTwoPi(prec uint) *big.Float {
	return new(big.Float).SetPrec(prec).Set(rootTwoPiMost())
}

// inverseTangent gives atan(1/n) in units of 2^-prec, within a unit a term.
func inverseTangent(n int64, prec uint) *big.Int {
	power := new(big.Int).Lsh(big.NewInt(1), prec)
	power.Quo(power, big.NewInt(n))
	sum := new(big.Int)
	for k := int64(0); power.Sign() != 0; k++ {
		term := new(big.Int).Quo(power, big.NewInt(2*k+1))
		if k%2 == 1 {
			term.Neg(term)
		}
		sum.Add(sum, term)
		power.Quo(power, big.NewInt(n*n))
	}
	return sum
}
