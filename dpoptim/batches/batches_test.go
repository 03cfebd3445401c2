package batches

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/stream"
)

// What every kind does, of 12 records at a rate of a third where it has a choice.
var table = []struct {
	kind     *Kind
	offered  bool
	rate     float64
	sampling accountant.Sampling
	uses     int // of a record, in 30 steps
	words    uint64
}{
	{Poisson, true, 1. / 3, accountant.Poisson, 30, 6 * 5}, // of a batch of 5: six gaps of four digits
	{Subsets, true, 1. / 3, accountant.FixedSize, 30, 4},
	{Shuffle, false, 1, accountant.Poisson, 30, 11},
	{Passes, false, 1. / 12, accountant.Poisson, 3, 0},
	{Full, false, 1, accountant.Poisson, 30, 0},
}

func check(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The table has each kind once, in the order of the registry.
func TestKinds(t *testing.T) {
	var listed []*Kind
	for _, x := range table {
		k := x.kind
		listed = append(listed, k)
		if Named(k.Name) != k || slices.Contains(Offered(), k.Name) != x.offered || k.Accountant != "" && PricedBy(k.Accountant) != k {
			t.Errorf("%s is not found as what it is", k.Name)
		}
		if drawn, each := Words(k.Name); drawn == "" || !strings.HasPrefix(each, "per step") || k.Called == "" || (k.Relation == "") != (k.Why == "") {
			t.Errorf("%s lacks words", k.Name)
		}
		b, err := k.Of(12, 1./3)
		check(t, err)
		e := b.BatchEvent(accountant.Gaussian{NoiseMultiplier: 1})
		if b.SamplingRate != x.rate || e.Rate != x.rate || e.Sampling != x.sampling || e.Count != 1 {
			t.Errorf("%s draws at rate %v and is priced as %+v", k.Name, b.SamplingRate, e)
		}
		if math.Abs(b.ExpectedBatch-12*x.rate) > 1e-12 || b.Unit != Record {
			t.Errorf("%s expects %v %ss", k.Name, b.ExpectedBatch, b.Unit)
		}
		if u := b.Uses(30); u != x.uses || b.Uses(0) != 0 {
			t.Errorf("30 steps of %s ask a record %d times", k.Name, u)
		}
		if d, err := b.open(b, 12); err != nil || d.words(5) != x.words {
			t.Errorf("%s: %v words, error %v", k.Name, d.words(5), err)
		}
	}
	if !slices.Equal(listed, kinds) {
		t.Error("the table lists other kinds than there are")
	}
	if Named("balls") != nil || PricedBy("") != nil || PricedBy(accountant.PLD) != nil {
		t.Error("a kind is found that there is not")
	}
	if drawn, each := Words("balls"); drawn != "balls" || each != "per step" {
		t.Errorf("words of an unknown kind: %s, %s", drawn, each)
	}
}

// Each record is in as many batches as the event says, of 6,000 steps. Where batches are random, one of 40 counts
// is more than 6.5 standard deviations away with probability 40·8e-11; the rest is exact.
func TestSamplersKeepTheRate(t *testing.T) {
	const n, steps = 40, 6000
	for _, k := range kinds {
		b, err := k.Of(n, 0.13)
		check(t, err)
		s, err := b.Sampler(n, stream.KeyFromSeed(1, "rate of "+k.Name), stream.ChaCha20)
		check(t, err)
		q := b.BatchEvent(accountant.Gaussian{NoiseMultiplier: 1}).Rate
		var hits [n]float64
		var batch []int32
		for step := range steps {
			batch = s.Batch(Position(step, First), batch)
			for _, i := range batch {
				hits[i]++
			}
		}
		most := 6.5 * math.Sqrt(steps*q*(1-q))
		if k.Span != nil {
			most = 1e-9
		}
		for i, h := range hits {
			if math.Abs(h-steps*q) > most+1e-9 {
				t.Errorf("%s: record %d is in %v of %d batches, the event says %v", k.Name, i, h, steps, steps*q)
			}
		}
	}
}

// With the same words, a record that is added puts no other into a batch, and takes none out: an event is of that record
// alone. A kind of which that is not true has a price under one relation, in which records keep their places.
func TestARecordMovesNoOther(t *testing.T) {
	const n = 40
	for _, k := range kinds {
		if k.Relation != "" {
			continue
		}
		b, err := k.Of(n, 0.13)
		if err != nil {
			t.Fatal(err)
		}
		var batches [2][]int32
		for step := range 200 {
			for i := range batches {
				s, err := b.Sampler(n-i, stream.KeyFromSeed(1, "moves of "+k.Name), stream.ChaCha20)
				if err != nil {
					t.Fatal(err)
				}
				batches[i] = slices.Sorted(slices.Values(s.Batch(Position(step, First), nil)))
				batches[i] = slices.DeleteFunc(batches[i], func(at int32) bool { return at == n-1 })
			}
			if !slices.Equal(batches[0], batches[1]) {
				t.Fatalf("%s: with another record, batch %d is %v, was %v", k.Name, step, batches[0], batches[1])
			}
		}
	}
}

// A sampler reads the words that it says, from where its position begins: the next one of its reader is the
// next one of the stream. A Poisson sampler may save the digits of its last gap. A word is
// rejected, or one equals another that is not compared here, with a probability below 1e-15.
func TestSamplersReadTheirWords(t *testing.T) {
	const n, most = 40, 400
	key, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(1, "words"))
	check(t, err)
	for _, k := range kinds {
		b, err := k.Of(n, 0.13)
		check(t, err)
		d, err := b.open(b, n)
		check(t, err)
		for step := range 50 {
			at := Position(step, Second)
			fresh, r := key.Reader(at, 0), key.Reader(at, 0)
			var words [most]uint64
			for i := range words {
				words[i] = fresh.Uint64()
			}
			size := len(d.draw(at, r, nil))
			read, says := uint64(slices.Index(words[:], r.Uint64())), d.words(size)
			fresh.Free()
			r.Free()
			if saved := says - read; saved != 0 && (k != Poisson || saved != 6) { // of 40 places: six digits
				t.Errorf("%s: %d words for a batch of %d, it says %d", k.Name, read, size, says)
			}
		}
	}
}

// Positions follow the steps and their batches without a gap, and none serves twice.
func TestPositions(t *testing.T) {
	want := uint64(0)
	for step := range 4 {
		for _, turn := range []Turn{First, Second, Third} {
			if at := Position(step, turn); at != want || stepOf(at) != uint64(step) {
				t.Errorf("batch %d of step %d stands at %d, which is of step %d", turn, step, at, stepOf(at))
			}
			want++
		}
	}
}
