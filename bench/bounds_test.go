package bench

import "testing"

func deref(x *float64) any {
	if x == nil {
		return nil
	}
	return *x
}

func TestBounds(t *testing.T) {
	roofline, modelled := Bounds("h100", "cnn-mnist", 300, "private", "float32")
	if roofline == nil || modelled == nil || !(0 < *roofline && *roofline < *modelled && *modelled < 1) {
		t.Errorf("bounds are %v and %v", deref(roofline), deref(modelled))
	}
	for _, c := range [][2]string{{"", "cnn-mnist"}, {"h100", "resnet"}, {"h200", "cnn-mnist"}} {
		if r, m := Bounds(c[0], c[1], 300, "private", "float32"); r != nil || m != nil {
			t.Errorf("%v has bounds", c)
		}
	}
}
