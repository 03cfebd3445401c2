package ir

import (
	"math"
	"strings"
	"testing"
)

// Every kind has a name of its own, and a number that is none says so.
func TestMapKinds(t *testing.T) {
	seen := map[string]bool{"": true}
	for _, k := range MapKinds() {
		if seen[k.String()] || maps[k].check == nil {
			t.Errorf("the map with the number %d is %q", uint8(k), k)
		}
		seen[k.String()] = true
	}
	if k := MapKind(math.MaxUint8); k.String() != "number 255" {
		t.Errorf("number 255 is the map %v", k)
	}
}

func TestGatherValidate(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		g    Gather
		says string // empty: nothing is wrong
	}{
		{nil, ""},
		{Gather{ScaledBy(1, 0)}, ""},
		{Gather{ScaledBy(-3e38, math.MaxFloat32)}, ""},
		{Gather{ScaledBy(nan, 0)}, "map scaled has the scale NaN"},
		{Gather{ScaledBy(1, inf)}, "map scaled has the scale 1 and the offset +Inf"},
		{Gather{ScaledBy(1, 0), ScaledBy(2, 0)}, "map scaled twice"},
		{Gather{{Kind: 77}}, "map number 77"},
	} {
		err := c.g.Validate([]int{3})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.g, err, c.says)
		}
	}
}
