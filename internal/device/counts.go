package device

// Counts are how many records have each class: private values that no method reads but
// a Counted right.
type Counts struct{ classes []int }

// CountLabels counts the labels that are classes.
func CountLabels(labels []uint8, classes int) Counts {
	c := Counts{make([]int, classes)}
	for _, l := range labels {
		if int(l) < classes {
			c.classes[l]++
		}
	}
	return c
}

// NewCounting is the right to compare counts with noise. Only dpoptim/mechanism asks for
// one, as for Noise.
func NewCounting(c Counts) []int { return c.classes }
