package tune

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"

	"github.com/privgrad/privgrad/accountant"
)

// A draw is what chance decides of one trial, before it is made: its settings, by their number in the grid, and the lot by which
// it wins or loses against a trial of the same score.
type draw struct {
	Choice int    `json:"choice"`
	Lot    uint64 `json:"lot,string"`
}

// randomness is of the operating system.
var randomness io.Reader = rand.Reader

// drawTrials draws all that chance decides of a tuning.
func drawTrials(t accountant.Trials, choices int) ([]draw, error) {
	k, err := drawNumber(t, randomness)
	if err != nil {
		return nil, fmt.Errorf("the operating system gives no randomness: %w", err)
	}
	all := make([]draw, k)
	for i := range all {
		n, err := rand.Int(randomness, big.NewInt(int64(choices))) // uniform
		if err != nil {
			return nil, err
		}
		var lot [8]byte
		if _, err := io.ReadFull(randomness, lot[:]); err != nil {
			return nil, err
		}
		all[i] = draw{int(n.Int64()), binary.LittleEndian.Uint64(lot[:])}
	}
	return all, nil
}

// Precision of the number of trials. Its distribution is within 2⁻¹⁰⁰ of the one that is priced, in total variation: weights are
// kept to 200 bits, of at most 2²¹ terms; what comes after the last weight is below 2⁻¹²⁸ of the sum; and a uniform number has 160 bits.
const (
	precision   = 200
	negligible  = -150 // log₂ of the share of a weight that ends the sum; the weights behind it are at most 2²⁰ times as much together
	uniformBits = 160
)

// drawNumber draws the number of trials by the inverse of its distribution function.
func drawNumber(t accountant.Trials, from io.Reader) (int, error) {
	bits := make([]byte, uniformBits/8)
	if _, err := io.ReadFull(from, bits); err != nil {
		return 0, err
	}
	number := func() *big.Float { return new(big.Float).SetPrec(precision) }
	u := number().SetInt(new(big.Int).SetBytes(bits))
	u.SetMantExp(u, -uniformBits)

	total := number()
	weigh(t, func(_ int, upTo *big.Float) bool { total.Set(upTo); return true })
	u.Mul(u, total)
	k := t.Least()
	weigh(t, func(n int, upTo *big.Float) bool { k = n; return u.Cmp(upTo) >= 0 })
	return k, nil
}

// weigh adds up weights of numbers of trials, from the least on, as long as they count and next wants more.
func weigh(t accountant.Trials, next func(k int, upTo *big.Float) bool) {
	number := func(x int64) *big.Float { return new(big.Float).SetPrec(precision).SetInt64(x) }
	ratio, weight, sum, small, one := number(0), number(1), number(1), number(0), number(1)
	for k := t.Least(); next(k, sum); k++ {
		t.Ratio(ratio, k)
		weight.Mul(weight, ratio)
		sum.Add(sum, weight)
		if small.Quo(weight, sum); ratio.Cmp(one) < 0 && (small.Sign() == 0 || small.MantExp(nil) < negligible) {
			return
		}
	}
}
