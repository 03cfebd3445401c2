package bench

import "testing"

func deref(x *float64) any {
	if x == nil {
		return nil
	}
	return *x
}

func TestModelled(t *testing.T) {
	if m := Modelled("h100", "cnn-mnist", 300, "private", "float32"); m == nil || !(0 < *m && *m < 1) {
		t.Errorf("a step is modelled as %v s", deref(m))
	}
	for _, c := range [][2]string{{"", "cnn-mnist"}, {"h100", "resnet"}, {"v100", "cnn-mnist"}} {
		if m := Modelled(c[0], c[1], 300, "private", "float32"); m != nil {
			t.Errorf("%v is modelled", c)
		}
	}
}
