package fault_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/fault"
)

func caught(f func()) (err error) {
	defer fault.Recover(&err)
	f()
	return nil
}

// An error says where, and nothing of the value.
func TestRecover(t *testing.T) {
	batch := []int{4711, 4712, 4713}
	index := len(batch) + 5
	for name, f := range map[string]func(){
		"index": func() { _ = batch[index] },
		"value": func() { panic(fmt.Sprint("a record: ", batch)) },
		"error": func() { panic(fmt.Errorf("a record: %v", batch)) },
	} {
		err := caught(f)
		var e *fault.Error
		if !errors.As(err, &e) || !strings.HasPrefix(e.Place, "fault/fault_test.go:") {
			t.Errorf("%s: %v", name, err)
		}
		for _, secret := range []string{"4711", "length", "[8]", "index out", "a record"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error says %q: %v", name, secret, err)
			}
		}
		if again := caught(func() { fault.Raise(err) }); again != err {
			t.Errorf("%s: handed on it became %v", name, again)
		}
	}
	if err := caught(func() { fault.Raise(nil) }); err != nil {
		t.Errorf("without a fault: %v", err)
	}
}
