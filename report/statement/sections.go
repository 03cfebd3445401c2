package statement

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/perexample"
	"github.com/privgrad/privgrad/train"
)

// sections are all that is said. Without a guarantee, nothing is said that reads as one.
func (r *run) sections() []Section {
	if !r.Guarantee {
		return filled(r.nothing(), r.software(), r.check())
	}
	return filled(r.promise(), r.protected(), r.attack(), r.training(),
		Section{Name: "other_runs", Title: "Other training on the same data", Sentences: r.budget()},
		r.tuning(), r.restsOn(), r.notCovered(), r.software(), r.check())
}

// filled has empty lists in the place of none, so that the JSON form has no nulls.
func filled(all ...Section) []Section {
	for i := range all {
		s := &all[i]
		s.Sentences, s.List, s.Facts = append([]string{}, s.Sentences...), append([]string{}, s.List...), append([]Fact{}, s.Facts...)
	}
	return all
}

// nothing is the promise of a run without a guarantee.
func (r *run) nothing() Section {
	s := Section{Name: "promise", Title: "No guarantee", Sentences: []string{
		"THIS RUN HAS NO PRIVACY GUARANTEE.",
		"Its model and its files may give away the records that it was trained on. Keep them as safe as the training data.",
	}}
	if r.Epsilon != nil {
		s.Sentences = append(s.Sentences, "The file `result.json` has a figure called epsilon. For this run it promises nothing: do not quote it.")
	}
	s.Sentences = append(s.Sentences, "The reasons, as the program gives them:")
	for _, why := range r.NoGuarantee {
		s.List = append(s.List, plan.Labeled(why))
	}
	return s
}

func (r *run) promise() Section {
	s := Section{Name: "promise", Title: "What is promised", Sentences: []string{
		fmt.Sprintf("This training run has a guarantee that is called differential privacy. It limits what anyone can learn from the results about whether any one %s was part of the training data.", r.unit.noun),
		fmt.Sprintf("Two numbers say how strict the limit is: ε (epsilon) = %s and δ (delta) = %s. The smaller they are, the less can be learned.", r.Stated(number), number(*r.Delta)),
		"The guarantee covers the model and all other files of the run, but for what is listed below as not covered.",
		fmt.Sprintf("It holds against someone who knows every other %s, the program and its settings, and has any computer that cannot break the ciphers AES-256 and ChaCha20.", r.unit.noun),
	}}
	if accountant.Doubt(*r.Epsilon) != "" {
		s.Sentences = append(s.Sentences, "With an ε as large as this, the guarantee is next to nothing: do not rely on it.")
	}
	return s
}

func (r *run) protected() Section {
	one := r.unit.noun
	s := Section{Name: "privacy_unit", Title: "Who or what is protected", Sentences: []string{fmt.Sprintf("The guarantee is for one %s.", one)}}
	say := func(sentence string) { s.Sentences = append(s.Sentences, sentence) }
	if r.unit.means != "" {
		say(r.unit.means)
	}
	if *r.Neighbouring == string(accountant.ReplaceOne) {
		say(fmt.Sprintf("It compares two sets of training data that differ in the content of one %s (neighbors, in the relation replace-one). What comes of the one is nearly as likely to come of the other.", one))
	} else {
		say(fmt.Sprintf("It compares two sets of training data of which one has one %s more (neighbors, in the relation add-remove). What comes of the one is nearly as likely to come of the other.", one))
	}
	if r.unit.local {
		say(fmt.Sprintf("Each %s was hidden by noise of its own before its answer was used (local privacy).", one))
	}
	if *r.Delta == 0 {
		say(fmt.Sprintf("Several %ss together are protected less. For k of them, ε is k times as large.", one))
	} else {
		say(fmt.Sprintf("Several %ss together are protected less. For k of them, ε is about k times as large, and δ grows by more than that.", one))
	}
	if one == "record" {
		say("So a person with several records is protected less than a person with one.")
	}
	return s
}

// attack says what ε and δ are for an attacker.
func (r *run) attack() Section {
	one := r.unit.noun
	s := Section{Name: "meaning", Title: "What ε and δ mean for an attacker"}
	say := func(format string, a ...any) { s.Sentences = append(s.Sentences, fmt.Sprintf(format, a...)) }
	factor := factor(*r.Bound())
	how := fmt.Sprintf("with any one %s as without that %[1]s, and the other way round", one)
	if *r.Neighbouring == string(accountant.ReplaceOne) {
		how = fmt.Sprintf("with any one %s as with any other in its place", one)
	}
	say("Any result is at most %s times as likely %s. That factor is e^ε.", factor, how)
	if *r.Delta == 0 {
		say("There are no exceptions, since δ is 0.")
	} else {
		say("The probability δ = %s%s is added to that bound, for results so rare that the factor alone might fail.", number(*r.Delta), oneIn(*r.Delta))
	}
	if r.Risk == nil {
		return s
	}
	guess := fmt.Sprintf("whether a given %s was part of the training data", one)
	if *r.Neighbouring == string(accountant.ReplaceOne) {
		guess = fmt.Sprintf("which of two %ss was part of the training data", one)
	}
	say("An attacker guesses %s, where both are equally likely. The guess is right at most %s of the time. A coin is right 50%% of the time. (The difference between the attacker's rates of right and of wrong accusations, the advantage, is at most %s.)", guess, percentUp((1+r.Risk.Advantage)/2), percentUp(r.Risk.Advantage))
	var rates []float64
	for key := range r.Risk.TPR {
		if x, err := strconv.ParseFloat(key, 64); err == nil {
			rates = append(rates, x)
		}
	}
	slices.Sort(rates)
	if len(rates) > 0 {
		say("An attacker may also try to be wrong rarely:")
	}
	for _, x := range rates {
		s.List = append(s.List, fmt.Sprintf("wrong about %s%% of the %ss that were no part of it: right about at most %s of those that were", number(100*x), one, percentUp(r.Risk.TPR[strconv.FormatFloat(x, 'f', -1, 64)])))
	}
	return s
}

// training says how the run came to hide records.
func (r *run) training() Section {
	s := Section{Name: "mechanism", Title: "How the training protects"}
	say := func(format string, a ...any) { s.Sentences = append(s.Sentences, fmt.Sprintf(format, a...)) }
	say("The model %s was trained on the data %s by the method %s, in %s.", r.Model, r.data(), r.Optimizer, plural(r.Steps, "step"))
	if r.Committed != nil && r.Steps < *r.Committed {
		say("%s were paid for: steps that were lost to interruptions count, too.", plural(*r.Committed, "step"))
	}
	s.Sentences = append(s.Sentences, r.drawn())
	if r.Clip != nil && r.Clipping != nil {
		say("What a %s says about how the model should change is a list of numbers, its gradient. Each gradient is cut to a length of at most %s%s. So no single %[1]s moves a sum of gradients by more.", r.unit.noun, number(*r.Clip), r.moving())
		say("Random noise is added to the sum of a step before anything else sees it.")
		if r.NoiseMultiplier != nil {
			say("Its standard deviation (its typical size) is %s times that length.", number(*r.NoiseMultiplier))
		}
		say("The noisy sum is divided by a public number, which does not depend on who takes part.")
	}
	if r.Counted != nil {
		say("Before training, the usable records were counted with noise: about %s. ε includes that count.", whole(int(max(*r.Counted, 0))))
	}
	say("The model is computed from noisy answers alone. ε was computed by the accountant %s.", *r.Accountant)
	switch {
	case r.Tuning != nil:
		say("It includes all trials that were made to choose settings (`%s` says what each may have asked of the training data). The released one asked this:", rundir.Tuning)
	case len(r.Events) > 0:
		say("It includes all that is released of the training data:")
	case r.Committed == nil:
		say("The method chooses its questions and their noise while it trains. It may release nothing that would exceed ε.")
	}
	for _, e := range r.Events {
		s.List = append(s.List, r.released(e))
	}
	return s
}

// moving says of a clip norm that it does not stay.
func (r *run) moving() string {
	if *r.Clipping == string(perexample.AdaptiveFlat) || *r.Clip != r.config.Clip {
		return " (at the end of training; before, the length followed from noisy answers, which ε includes)"
	}
	return ""
}

// drawn says how the batches of steps were.
func (r *run) drawn() string {
	one := r.unit.noun
	of := fmt.Sprintf("%s of %s records", count(r.ExpectedBatch), whole(r.PublicN))
	switch {
	case r.SamplingRate == 1:
		return fmt.Sprintf("Every step uses all %ss (their public number is %s).", one, whole(r.PublicN))
	case r.Sampling == batches.Poisson.Name && one != string(batches.Record):
		return fmt.Sprintf("In each step, every %s takes part with a probability of %s%%, independently of all others. Who takes part, and how many do, is secret.", one, number(100*r.SamplingRate))
	case r.Sampling == batches.Poisson.Name:
		return fmt.Sprintf("In each step, every record takes part with a probability of %s%%, independently of all others: on average %s (the public number). Who takes part, and how many do, is secret.", number(100*r.SamplingRate), of)
	case r.Sampling == batches.Subsets.Name:
		return fmt.Sprintf("In each step, chance picks %s (the public number), and every choice is equally likely. Who takes part is secret.", of)
	}
	drawn, each := batches.Words(r.Sampling)
	return fmt.Sprintf("Records take part as follows: %s, %s (the public number) %s.", drawn, of, each)
}

// released is an event in words.
func (r *run) released(e accountant.Event) string {
	one := r.unit.noun
	s := plural(e.Count, "time")
	switch {
	case e.Rate == 1:
		s += fmt.Sprintf(", of all %ss", one)
	case e.Sampling == accountant.Poisson:
		s += fmt.Sprintf(", of %ss that take part with probability %s%%", one, number(100*e.Rate))
	case e.Sampling == accountant.FixedSize:
		s += fmt.Sprintf(", of a random %s%% of the %ss", number(100*e.Rate), one)
	default:
		s += fmt.Sprintf(", of all %ss", one)
	}
	for i, m := range e.Mechanisms {
		if s += ": "; i > 0 {
			s = s[:len(s)-2] + "; and "
		}
		s += answer(m, one)
	}
	return s
}

// answer is a mechanism in words.
func answer(m accountant.Mechanism, one string) string {
	switch m := m.(type) {
	case accountant.Gaussian:
		return fmt.Sprintf("a sum with normal (Gaussian) noise, %s times as large as the most that counts for one %s", number(m.NoiseMultiplier), one)
	case accountant.Laplace:
		return fmt.Sprintf("a number with Laplace noise, of a scale %s times the most that counts for one %s", number(m.Scale), one)
	case accountant.NoisyBTLS:
		return fmt.Sprintf("a noisy search for a step size (noise scales %s and %s)", number(m.ThresholdScale), number(m.QueryScale))
	case accountant.BoundedRange:
		return fmt.Sprintf("a random choice that costs ε = %s", number(m.Epsilon))
	case accountant.Pure:
		return fmt.Sprintf("a random answer that costs ε = %s", number(m.Epsilon))
	case accountant.ObjectivePerturbation:
		return fmt.Sprintf("parameters of a fit with normal noise in what is fitted, %s times as large as the most that counts for one %s", number(m.NoiseMultiplier), one)
	}
	return m.Name()
}

func (r *run) tuning() Section {
	s := Section{Name: "tuning", Title: "How the settings were chosen"}
	if t := r.Tuning; t != nil {
		s.Sentences = append(s.Sentences, "Trying out settings on the training data reveals something of them, too. ε includes the trials that the program made, and the choice among them.",
			fmt.Sprintf("The released settings are: %s. They are %s.", t.Settings(), t.Words()),
			fmt.Sprintf("This holds if %s.", t.RestsOn()))
	} else {
		s.Sentences = append(s.Sentences, "Trying out settings on the training data reveals something of them, too. ε does not include that: it holds if nobody chose a setting of this run by looking at the training data, or at what an earlier run made of them.")
	}
	if r.DefaultsFrom != "" {
		s.Sentences = append(s.Sentences, fmt.Sprintf("Settings that nobody gave come from privgrad. These were chosen on %s.", plan.ChosenOn(r.DefaultsFrom)))
	}
	return s
}

func (r *run) restsOn() Section {
	s := Section{Name: "assumptions", Title: "What the guarantee rests on", Sentences: []string{"The guarantee holds if all of this is true. The program cannot check it:"}}
	for _, a := range r.Assumptions {
		s.List = append(s.List, train.Assumption(a))
	}
	s.List = append(s.List,
		"the settings, the number of records that was stated, the names of classes, and test data that were declared public may be known to anyone",
		"nobody knows the keys of the random numbers, which the operating system made, and the ciphers hold",
		"the program does what it says: its mathematics is proved and its code is tested, which makes mistakes unlikely and not impossible")
	return s
}

func (r *run) notCovered() Section {
	one := r.unit.noun
	s := Section{Name: "not_covered", Title: "What the guarantee does not cover", Sentences: []string{"It says nothing about:"}, List: []string{
		fmt.Sprintf("%s: ε is for one %s", r.unit.group, one),
		"what the data of others tell about a person, and what is known of a person otherwise, such as a label: a model may show what holds for people of a kind, also for those who were no part of the data",
		"time, memory, energy and disk use of the training, which the figures `seconds`, `examples_per_second` and `peak_rss_bytes` of `result.json` show in part",
		"anyone who could read the memory or the disk of the machine, or change the program",
		"the training data themselves, copies of them, and whoever may see them",
		"names of folders and other words that somebody typed: look at `config.yaml`, `checkpoint/config.yaml` and `result.json` before you publish them",
		"data to which the model is applied later, and whether the model is right or fair",
	}}
	if r.TestLoss != nil || r.TestAccuracy != nil || r.RMSE != nil {
		s.List = append(s.List, "the test data: figures about them have no noise, since these data were declared public")
	}
	if r.Tuning != nil {
		s.List = append(s.List, fmt.Sprintf("the folder `%s.private`, which has all trials of the tuning, and how many they were; and the time that the tuning took, which tells about that number", r.name()))
	}
	if r.Diagnostics {
		s.List = append(s.List, fmt.Sprintf("the folder `%s.private`, which was written for the owner of the data and has exact figures", r.name()))
	}
	return s
}

func (r *run) software() Section {
	s := Section{Name: "software", Title: "Program and files"}
	version := r.version
	if version == "" {
		version = "not recorded in the model's file"
	}
	s.Facts = []Fact{{"run", r.name()}, {"program", "privgrad " + version}}
	for _, name := range []string{rundir.Model, rundir.Ledger, rundir.Config, rundir.Metrics, rundir.Average, rundir.Features, rundir.Network, rundir.Frozen, rundir.Tuning} {
		if digest := r.Digests[name]; digest != "" {
			s.Facts = append(s.Facts, Fact{name, digest})
		}
	}
	s.Sentences = []string{"Behind the name of each file stands its SHA-256, a fingerprint: a file that was changed has another one."}
	return s
}

func (r *run) check() Section {
	return Section{Name: "verification", Title: "How to check this statement", Sentences: []string{
		fmt.Sprintf("`privgrad verify %s` needs no training data. It computes ε again from the list of releases, and compares the files with each other. For programs there is `privgrad verify %[1]s --json`.", r.name()),
		"That shows that the files go together. It does not show that training happened as they say: someone who invents a run can invent all of its files.",
		fmt.Sprintf("`privgrad report %s --statement` makes this statement from the files of the run.", r.name()),
	}}
}
