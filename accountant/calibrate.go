package accountant

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant/internal/pld"
	"github.com/privgrad/privgrad/internal/papers"
	"github.com/privgrad/privgrad/internal/usage"
)

// Schedule is DP-SGD's: steps batches at one rate, each asked for one Gaussian sum.
type Schedule struct {
	SamplingRate float64
	Steps        int
	Neighbouring Neighbouring
	Accountant   string
	Delta        float64
	// Batch is the event of batches; nil: PoissonBatch.
	Batch func(rate float64, count int, asked ...Mechanism) Event
	// Price, where it is not nil, is ε of a schedule that asks for more; it must fall as sigma grows, and
	// reads the rest of the schedule from s.
	Price func(s Schedule, sigma float64) (float64, error)

	byAdvantage bool // Price is an attack's advantage
}

// MostSteps is more than anybody trains for.
const MostSteps = 1_000_000_000

// StepsOf is the number of steps, rounded down, in which each record is expected to take part epochs times.
func StepsOf(epochs, samplingRate float64) (int, error) {
	// The quotient is often whole, and in floating point just below it.
	steps := math.Floor(epochs / samplingRate * (1 + 1e-12))
	if !(steps >= 1) {
		return 0, usage.Errorf("%v epochs at sampling rate %v make no step: give more epochs or --steps", epochs, samplingRate)
	}
	if steps > MostSteps {
		return 0, usage.Errorf("%v epochs at sampling rate %v make %.0f steps: give fewer epochs or a larger batch", epochs, samplingRate, steps)
	}
	return int(steps), nil
}

// Events are what the schedule releases at a noise multiplier of the sum.
func (s Schedule) Events(sigma float64) []Event {
	if s.Steps <= 0 {
		return nil
	}
	batch := s.Batch
	if batch == nil {
		batch = PoissonBatch
	}
	return []Event{batch(s.SamplingRate, s.Steps, Gaussian{sigma})}
}

// Epsilon is what the schedule costs at a noise multiplier of the sum; 0 if it
// releases nothing.
func (s Schedule) Epsilon(sigma float64) (float64, error) {
	if s.Price != nil {
		return s.Price(s, sigma)
	}
	events := s.Events(sigma)
	if len(events) == 0 {
		return 0, nil
	}
	r, err := Account(events, Options{Accountant: s.Accountant, Neighbouring: s.Neighbouring, Delta: s.Delta})
	return r.Epsilon, err
}

// ByAdvantage is the schedule with the advantage of a membership attack (Risk) in the place
// of ε: calibrations aim at it, and say what they reached of it.
func (s Schedule) ByAdvantage() Schedule {
	s.byAdvantage = true
	s.Price = func(s Schedule, sigma float64) (float64, error) {
		events := s.Events(sigma)
		if len(events) == 0 {
			return 0, nil
		}
		r, err := RiskOf(events, Options{Accountant: s.Accountant, Neighbouring: s.Neighbouring, Delta: s.Delta})
		switch {
		case err != nil:
			return 0, err
		case r != nil:
			return r.Advantage, nil
		case NoGuarantee(s.Accountant) != "":
			return 0, fmt.Errorf("accountant %s gives no guarantee, and so bounds no attack: use %s", s.Accountant, PLD)
		}
		return 1, nil // without noise
	}
	return s
}

// target is what a calibration aims at, in words.
func (s Schedule) target(x float64) string {
	if s.byAdvantage {
		return fmt.Sprintf("advantage %v", x)
	}
	return fmt.Sprintf("epsilon %v at delta %v", x, s.Delta)
}

// budget names what allows more.
func (s Schedule) budget() string {
	if s.byAdvantage {
		return "the advantage"
	}
	return "epsilon or delta"
}

func (s Schedule) checkTarget(x float64) error {
	if !s.byAdvantage {
		return cmp.Or(checkTarget(x), checkDelta(s.Delta))
	}
	if !(x > 0 && x < 1) {
		return fmt.Errorf("advantage %v: the target must be above 0 and below 1, which is an attacker who is always right", x)
	}
	return nil
}

// method is the schedule's accountant, if there is something to calibrate.
func (s Schedule) method(target float64) (method, error) {
	if err := s.checkTarget(target); err != nil {
		return method{}, err
	}
	if s.Steps < 1 {
		return method{}, fmt.Errorf("step count %d: must be 1 or more", s.Steps)
	}
	return methodOf(s.Accountant)
}

// ErrBudget says that no choice meets an otherwise proper target: the budget
// does not allow what was asked.
var ErrBudget = papers.ErrBudget

func checkTarget(epsilon float64) error {
	if !(epsilon > 0) || math.IsInf(epsilon, 0) {
		return fmt.Errorf("epsilon %v: the target must be a finite number above 0", epsilon)
	}
	return nil
}

// A point is an argument of a calibration with the ε that it gives.
type point struct{ x, epsilon float64 }

// A rule names the next argument to look at, which lies between good, whose ε is
// within the target, and bad, whose ε is not; false: they are near enough.
type rule func(good, bad point) (x float64, more bool)

// narrow moves good and bad towards each other by a rule. ε must be monotone
// between them.
func narrow(target float64, good, bad point, next rule, at func(x float64) (float64, error)) (point, error) {
	for {
		x, more := next(good, bad)
		if !more {
			return good, nil
		}
		e, err := at(x)
		if err != nil {
			return point{}, err
		}
		if e <= target {
			good = point{x, e}
		} else {
			bad = point{x, e}
		}
	}
}

// secants go on until ε is within slack of the target, relatively, or the
// arguments are next to each other: secants in logarithms, where ε is nearly a
// power of each argument, aimed a little to the good side. An end that stays is
// given less weight (Dowell and Jarratt 1971, the Illinois rule).
func secants(target, slack float64) rule {
	const gap, tries = 1e-15, 200
	aim := math.Log(target) + math.Log1p(-slack/2)
	height := func(p point) float64 { return math.Log(p.epsilon) - aim }
	var last point // good, when it was looked at last
	var g, b float64
	stayed := 0
	try := -1
	return func(good, bad point) (float64, bool) {
		switch try++; {
		case try == 0:
			g, b = height(good), height(bad)
		case good.x != last.x:
			g = height(good)
			if stayed = max(stayed, 0) + 1; stayed > 1 {
				b /= 2
			}
		default:
			b = height(bad)
			if stayed = min(stayed, 0) - 1; stayed < -1 {
				g /= 2
			}
		}
		last = good
		if try == tries || !(good.epsilon < target*(1-slack)) || math.Abs(good.x-bad.x) <= gap*good.x {
			return 0, false
		}
		lx, lb := math.Log(good.x), math.Log(bad.x)
		share := g / (g - b) // of the way from good to bad
		if !(share > 0.001 && share < 0.999) || try%8 == 7 {
			share = 0.5
		}
		x := math.Exp(lx + share*(lb-lx))
		return x, x != good.x && x != bad.x
	}
}

// wholes are secants over whole numbers, of which good is the smaller: they end
// at neighbors. Where a secant has come close, the next numbers are looked at first.
func wholes(target float64) rule {
	var secant float64 // what was looked at last, if it was no such probe
	return func(good, bad point) (float64, bool) {
		if bad.x-good.x <= 1 {
			return 0, false
		}
		if good.x == secant {
			secant = 0
			return good.x + math.Max(1, math.Floor((bad.x-good.x)/64)), true
		}
		x := math.Floor(math.Sqrt(good.x * bad.x))
		if share := (math.Log(target) - math.Log(good.epsilon)) / (math.Log(bad.epsilon) - math.Log(good.epsilon)); share > 0 && share < 1 {
			x = math.Floor(good.x * math.Pow(bad.x/good.x, share))
		}
		secant = min(max(x, good.x+1), bad.x-1)
		return secant, true
	}
}

// LeastAdmitted is the smallest noise multiplier in [least, most], to one part in
// 10⁹, at which a budget that was just opened admits an event. An error says why
// it does not admit the event at most.
func LeastAdmitted(event func(sigma float64) Event, open func() (Budget, error), least, most float64) (float64, error) {
	admitted := func(sigma float64) error {
		b, err := open()
		if err != nil {
			return err
		}
		return b.Ask(event(sigma))
	}
	if !(least > 0 && least <= most) {
		return 0, fmt.Errorf("noise multipliers from %v to %v: give two above 0, the smaller one first", least, most)
	}
	if err := admitted(most); err != nil {
		return 0, err
	}
	good, bad := most, least
	for good/bad > 1+1e-9 {
		if sigma := math.Sqrt(good * bad); admitted(sigma) == nil {
			good = sigma
		} else {
			bad = sigma
		}
	}
	return good, nil
}

// OutOfReach says that no noise brings a schedule to its target. It is ErrBudget.
type OutOfReach struct {
	Least float64 // what the schedule costs with as good as unlimited noise
	Words string
}

func (e *OutOfReach) Error() string { return e.Words }

// Unwrap is ErrBudget.
func (e *OutOfReach) Unwrap() error { return ErrBudget }

func (s Schedule) outOfReach(target, noise, least float64) error {
	also := ""
	if s.Accountant == RDP {
		also = ", or use accountant " + PLD
	}
	return &OutOfReach{least, fmt.Sprintf("%s is out of reach over %d steps at sampling rate %.4g: even with a noise multiplier of %.3g accountant %s gives %.4g; raise %s%s",
		s.target(target), s.Steps, s.SamplingRate, noise, s.Accountant, least, s.budget(), also)}
}

// Calibrate finds the smallest noise multiplier whose ε does not exceed the
// target: never above it, and within 1e-4 relative below.
func (s Schedule) Calibrate(epsilon float64) (sigma, reached float64, err error) {
	m, err := s.method(epsilon)
	if err != nil {
		return 0, 0, err
	}
	at := func(sigma float64) (float64, error) {
		e, err := s.Epsilon(sigma)
		if errors.Is(err, pld.ErrNoise) { // nothing is known of so little
			return math.Inf(1), nil
		}
		return e, err
	}
	const least, most = 1e-3, 1e9
	good := point{x: s.guess(epsilon)}
	for {
		if good.epsilon, err = at(good.x); err != nil {
			return 0, 0, err
		}
		if good.epsilon <= epsilon {
			break
		}
		if good.x *= 2; good.x > most {
			return 0, 0, s.outOfReach(epsilon, most, good.epsilon)
		}
	}
	needless := func() error {
		return fmt.Errorf("%s asks for almost no noise: a noise multiplier of %.3g already meets it, with %.4g, and less cannot be certified; lower %s",
			s.target(epsilon), good.x, good.epsilon, s.budget())
	}
	bad := good
	for factor := 1.1; bad.epsilon <= epsilon; factor = 2 {
		good, bad.x = bad, bad.x/factor
		if bad.x < least {
			return 0, 0, needless()
		}
		if bad.epsilon, err = at(bad.x); err != nil {
			return 0, 0, err
		}
	}
	for math.IsInf(bad.epsilon, 1) {
		if good.x < 1.01*bad.x {
			return 0, 0, needless()
		}
		between := point{x: math.Sqrt(good.x * bad.x)}
		if between.epsilon, err = at(between.x); err != nil {
			return 0, 0, err
		}
		if between.epsilon <= epsilon {
			good = between
		} else {
			bad = between
		}
	}
	good, err = narrow(epsilon, good, bad, secants(epsilon, m.slack), at)
	return good.x, good.epsilon, err
}

// guess is a noise multiplier to begin a search at: that of an accountant that
// takes less time, where it has a bound.
func (s Schedule) guess(epsilon float64) float64 {
	if s.Accountant != RDP && s.Accountant != Paper {
		s.Accountant = map[string]string{PRV: PLD}[s.Accountant]
		if s.Accountant == "" {
			s.Accountant = RDP
		}
		if sigma, _, err := s.Calibrate(epsilon); err == nil {
			return sigma
		}
	}
	return 1
}

// CalibrateSteps finds the largest number of steps whose ε does not exceed the
// target, for a noise multiplier; s.Steps is ignored.
func (s Schedule) CalibrateSteps(epsilon, sigma float64) (steps int, reached float64, err error) {
	if err := s.checkTarget(epsilon); err != nil {
		return 0, 0, err
	}
	at := func(n float64) (float64, error) {
		s.Steps = int(n)
		return s.Epsilon(sigma)
	}
	before, err := at(0)
	if err != nil {
		return 0, 0, err
	}
	if before > epsilon {
		return 0, 0, papers.Refuse("%s is below what accountant %s gives before the first step, %.4g: raise %s", s.target(epsilon), s.Accountant, before, s.budget())
	}
	good := point{x: 1}
	if good.epsilon, err = at(1); err != nil {
		return 0, 0, err
	}
	if good.epsilon > epsilon {
		return 0, 0, papers.Refuse("%s does not pay for one step at noise multiplier %v and sampling rate %v: raise %s, or the noise", s.target(epsilon), sigma, s.SamplingRate, s.budget())
	}
	const most = 1 << 30
	bad := good
	for factor := 2.0; bad.epsilon <= epsilon; factor *= 2 {
		good = bad
		if bad.x *= factor; bad.x > most {
			return 0, 0, fmt.Errorf("%s pays for more than %d steps at noise multiplier %v: lower the noise", s.target(epsilon), most, sigma)
		}
		if bad.epsilon, err = at(bad.x); err != nil {
			return 0, 0, err
		}
	}
	good, err = narrow(epsilon, good, bad, wholes(epsilon), at)
	return int(good.x), good.epsilon, err
}

// CalibrateSamplingRate finds the largest sampling rate whose ε does not
// exceed the target, for a noise multiplier; s.SamplingRate is ignored.
func (s Schedule) CalibrateSamplingRate(epsilon, sigma float64) (rate, reached float64, err error) {
	m, err := s.method(epsilon)
	if err != nil {
		return 0, 0, err
	}
	at := func(q float64) (float64, error) {
		s.SamplingRate = q
		return s.Epsilon(sigma)
	}
	bad := point{x: 1}
	if bad.epsilon, err = at(1); err != nil {
		return 0, 0, err
	}
	if bad.epsilon <= epsilon {
		return 1, bad.epsilon, nil
	}
	const least = 1e-12
	good := bad
	for good.epsilon > epsilon {
		bad, good.x = good, good.x/8
		if good.x < least {
			return 0, 0, papers.Refuse("no sampling rate reaches %s over %d steps with noise multiplier %v: accountant %s gives no less than %.4g; raise %s, or the noise", s.target(epsilon), s.Steps, sigma, s.Accountant, bad.epsilon, s.budget())
		}
		if good.epsilon, err = at(good.x); err != nil {
			return 0, 0, err
		}
	}
	good, err = narrow(epsilon, good, bad, secants(epsilon, m.slack), at)
	return good.x, good.epsilon, err
}
