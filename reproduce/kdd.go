package reproduce

import (
	"math"
	"math/rand/v2"
	"sync"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/train"
)

// KDDName is the data set that Env.KDD adds, and KDDLabel goes with every figure of it.
const (
	KDDName  = "kdd-standin"
	KDDLabel = "KDD Cup 1999 is a SYNTHETIC STAND-IN of the size, width and share of attacks that are published: its figures say nothing of the network"
)

// Size and share of attacks, as Fay et al. 2023, section 4, have them.
const (
	kddRecords = 70_000
	kddAttacks = 210
)

// KDD adds the stand-in for four attributes of KDD Cup 1999 to the data sets that train knows,
// labels all figures, and gives the name.
func (e *Env) KDD() string {
	e.Label(KDDLabel)
	if _, ok := e.Sources[KDDName]; !ok {
		e.Sources[KDDName] = train.Source{BuiltIn: true, Open: func(string) (*datasets.Set, error) { return kdd(), nil }}
	}
	return KDDName
}

// kdd makes the table: a connection's duration, the number of its service, and the bytes that it sends and
// receives, with long tails; each in units of its standard deviation, from its mean. These are of the made
// table, which is nobody's.
var kdd = sync.OnceValue(func() *datasets.Set {
	const width = 4
	r := rand.New(rand.NewPCG(1999, 0x5eed))
	heavy := func(location, scale float64) float64 { return math.Exp(location + scale*r.NormFloat64()) }
	rows := make([]float64, 0, kddRecords*width)
	split := datasets.Split{Shape: [3]int{1, 1, width}, Unit: true, Labels: make([]uint8, kddRecords), Values: make([]float32, kddRecords*width)}
	for _, i := range r.Perm(kddRecords)[:kddAttacks] {
		split.Labels[i] = 1
	}
	for _, attack := range split.Labels {
		var duration float64
		service := []float64{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3}[r.IntN(12)]
		if attack == 1 {
			duration, service = heavy(3, 2), float64(r.IntN(4))
		} else if r.IntN(10) == 0 {
			duration = heavy(2, 2)
		}
		rows = append(rows, duration, service, heavy(5.5+3*float64(attack), 1), heavy(7.5, 1.5))
	}
	for j := range width {
		var sum, squares float64
		for i := j; i < len(rows); i += width {
			sum += rows[i]
			squares += rows[i] * rows[i]
		}
		mean := sum / kddRecords
		sd := math.Sqrt(squares/kddRecords - mean*mean)
		for i := j; i < len(rows); i += width {
			split.Values[i] = float32((rows[i] - mean) / sd)
		}
	}
	return &datasets.Set{
		Name: KDDName, Classes: 2, ClassNames: []string{"normal", "attack"}, PublicN: kddRecords, PerClass: []int{kddRecords - kddAttacks, kddAttacks},
		Note: KDDLabel, Train: split,
	}
})
