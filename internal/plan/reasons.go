package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
)

// PrivacyUnit is what the guarantee protects: locally where nobody but its client sees a record.
func PrivacyUnit(c *config.Config) string {
	if c.Traits().Local {
		return "one record, local"
	}
	return c.PrivacyUnit.Words()
}

// reasons are all that can make of a run's ε no guarantee: what a result says, and of
// what, for a run of which it is true. docs/explain/privacy.md has them, too.
var reasons = []struct {
	words string
	bare  bool // nothing protects a record then
	is    func(p *Plan) (of []any, ok bool)
}{
	{"optimizer %s neither bounds nor hides a record's influence", true, func(p *Plan) ([]any, bool) {
		return []any{p.Config.Optimizer}, !p.Config.Private()
	}},
	{"no noise was added", true, func(p *Plan) ([]any, bool) { return nil, p.Config.Private() && !p.Noisy }},
	{"epsilon is infinite", true, func(p *Plan) ([]any, bool) { return nil, p.Noisy && p.Epsilon == nil }},
	{SeededLabel, true, func(p *Plan) ([]any, bool) { return nil, p.Config.Noise == dpoptim.Seeded }},
	{"%s", false, func(p *Plan) ([]any, bool) {
		why := accountant.NoGuarantee(p.Config.Accountant)
		return []any{why}, why != "" && p.Config.Private()
	}},
	{"%s", false, func(p *Plan) ([]any, bool) { // the method's own
		return []any{strings.Join(p.Notes.NoGuarantee, "; ")}, len(p.Notes.NoGuarantee) > 0
	}},
	{"one fold of a k-fold: epsilon is this run's alone; each record trains k−1 of the k models, so add up their epsilons", false, func(p *Plan) ([]any, bool) {
		return nil, p.Config.Folds > 0
	}},
	{"un-noised training statistics shown", false, func(p *Plan) ([]any, bool) { return nil, p.Config.DataIsPublic }},
}

// reasons are those that are true of the run.
func (p *Plan) reasons() []string {
	all := []string{}
	for _, r := range reasons {
		if of, ok := r.is(p); ok {
			all = append(all, fmt.Sprintf(r.words, of...))
		}
	}
	return all
}

// SeededLabel goes with everything that a seeded run shows or stores.
const SeededLabel = notPrivate + "seeded noise, whoever knows the seed can subtract it"

// guarantee is what the run promises.
func (p *Plan) guarantee() (g accountant.Guarantee, err error) {
	c := &p.Config
	why := p.reasons()
	g = accountant.Guarantee{Guarantee: len(why) == 0, NoGuarantee: why, PrivacyUnit: PrivacyUnit(c), Assumptions: p.Assumptions()}
	if c.Private() {
		g.Epsilon, g.Asked, g.Delta, g.Accountant, g.Neighbouring = p.Epsilon, c.Epsilon, c.Delta, &c.Accountant, &c.Neighbouring
	}
	if p.Traits.Pure { // whatever was asked for
		g.Delta, g.Accountant = new(0.0), new(accountant.Pure{}.Name())
	}
	if g.Guarantee {
		g.Risk, err = p.Price.Risk(*g.Delta)
	}
	return g, err
}

// The labels of a reason.
const (
	notPrivate  = "NOT PRIVATE: "  // nothing protects a record
	noGuarantee = "NO GUARANTEE: " // ε is not proven
)

// Labeled is a reason against a guarantee behind its label, also one of an earlier run.
func Labeled(why string) string {
	for _, r := range reasons {
		before, after, _ := strings.Cut(r.words, "%s")
		if r.bare && strings.HasPrefix(why, before) && strings.HasSuffix(why, after) {
			return notPrivate + strings.TrimPrefix(why, notPrivate)
		}
	}
	return noGuarantee + why
}

// doubts are what no guarantee saves a run from.
func (p *Plan) doubts() (all []string) {
	if p.Epsilon == nil {
		return nil
	}
	if d := accountant.Doubt(*p.Epsilon); d != "" {
		all = append(all, d)
	}
	if r := p.noiseOverSignal(); r > 1 {
		all = append(all, fmt.Sprintf("the noise drowns the gradients: over the run it moves the parameters %.2g times as far as gradients could that all point one way; raise --epsilon, --batch or --steps, or take a smaller model", r))
	}
	return all
}

// noiseOverSignal sets the length of all noise of a run of equal learning rates, σC√(dT)/(qN) in
// d dimensions and T steps, beside the longest way that clipped gradients can go, CT: a function of the
// configuration alone. It is 0 where the noise is not committed to or is not one of gradients.
func (p *Plan) noiseOverSignal() float64 {
	if p.Declaration.Budget != dpoptim.Committed || p.Declaration.Asks[0].Question != dpoptim.Gradients {
		return 0
	}
	return p.Sigma * math.Sqrt(float64(p.Facts.Params)/float64(p.Steps)) / p.ExpectedBatch
}

// Label is what must stand beside everything that a run shows or stores.
func Label(c *config.Config) string {
	var all []string
	if c.Noise == dpoptim.Seeded {
		all = append(all, SeededLabel)
	}
	if why := accountant.NoGuarantee(c.Accountant); why != "" && c.Private() {
		all = append(all, noGuarantee+why)
	}
	return strings.Join(all, "; ")
}

// Assumptions that do not follow from the settings alone.
const (
	publishedFiles = "files_are_the_published_ones"
	publicTest     = "test_split_is_public"
	ownGraph       = "initial_parameters_are_public"
	ownFeatures    = "own_features_are_public"
	// RealArithmetic is that of runs whose noise was added in floating point, as it was
	// before every release lay on a grid.
	RealArithmetic = "real_arithmetic"
)

// Assumptions are all that a guarantee can rest on, beside its mathematics: what a result
// says, what a person is told, and of which run it is true. docs/explain/privacy.md has them, too.
var assumptions = []struct {
	key, words string
	is         func(p *Plan) bool
}{
	{RealArithmetic, "an earlier version added a part of the noise in floating point, which the analysis does not cover", func(*Plan) bool { return false }},
	{"tensor_cores_add_in_float32", "tensor cores add products as coarsely as docs/proofs/rounding.md says, or better, for all numbers as they did for those that were tried", func(p *Plan) bool { return p.precision != device.Float32 }},
	{publishedFiles, "the files are the published data set, as --published-set says", func(p *Plan) bool { return slices.Contains(p.declared, publishedFiles) }},
	{publicTest, "the test records are public, as --test-is-public or the schema says", func(p *Plan) bool { return slices.Contains(p.declared, publicTest) }},
	{"public_n_is_right", "the data set has at most as many records as --public-n says", func(p *Plan) bool { return p.Config.PublicN != nil && !p.Config.ByUser() }},
	{"public_n_bounds_users", "the data set has at most as many users as --public-n says", func(p *Plan) bool { return p.Config.ByUser() }},
	{"users_are_named_rightly", "the column of --unit, or the file of --users, says whose each record is", func(p *Plan) bool { return p.Config.ByUser() }},
	{"cublas_adds_every_row_alike", "cuBLAS adds up a row alike wherever in a batch it is, for all numbers as it did for the random ones that were tried", func(p *Plan) bool { return p.Config.GEMM == devices.GEMMCuBLAS }},
	{"init_file_is_public", "the initial model does not depend on the private data", func(p *Plan) bool { return p.Config.Init != "" }},
	{"class_weights_are_public", "the class weights follow from nothing private, such as the numbers of records of the classes", func(p *Plan) bool { return len(p.Config.ClassWeights) > 0 }},
	{"protector_file_is_public", "the protector was not made of the private data; its card cannot be checked", func(p *Plan) bool { return slices.Contains(p.Notes.Assumes, "protector_file_is_public") }},
	{ownFeatures, "the user's own features of a record, a function or constants in a file, depend on that record alone and on nothing private", func(p *Plan) bool { return p.Front != nil && !p.Front.Made() && p.Imported == nil }},
	{"network_file_is_public", "the file of the network does not depend on the private data: which layers it has, their sizes, and the numbers in it that are no weights", func(p *Plan) bool { return p.Config.Network != "" }},
	{"weights_of_the_file_are_public", "the weights of the network's file do not depend on the private data, as --weights-are-public says", func(p *Plan) bool { return p.Config.WeightsArePublic }},
	{"onnx_runtime_maps_each_record_alone", "ONNX Runtime gives one record at a time values that depend on that record alone", func(p *Plan) bool { return p.Imported != nil && p.Imported.ByRuntime }},
	{ownGraph, "the graph's initial parameters do not depend on the private data", func(p *Plan) bool { return p.ownNetwork }},
}

// Assumption is one of a result's in words; another version's stays as it is.
func Assumption(key string) string {
	for _, a := range assumptions {
		if a.key == key {
			return a.words
		}
	}
	return key
}

// Assumptions lists what the guarantee rests on in this process.
func (p *Plan) Assumptions() []string {
	all := []string{}
	for _, a := range assumptions {
		if a.is(p) {
			all = append(all, a.key)
		}
	}
	return all
}
