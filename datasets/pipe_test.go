package datasets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pipe makes a text standard input.
func pipe(t *testing.T, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in")
	check(t, os.WriteFile(path, []byte(text), 0o600))
	in, err := os.Open(path)
	check(t, err)
	old := os.Stdin
	os.Stdin = in
	t.Cleanup(func() { os.Stdin = old; in.Close() })
}

func TestPiped(t *testing.T) {
	pipe(t, "a,b\n1,2\n")
	if data, err := ReadFile(Piped); err != nil || string(data) != "a,b\n1,2\n" {
		t.Errorf("%q, %v", data, err)
	}
	if data, err := ReadFile(Piped); err == nil || !strings.Contains(err.Error(), "pipe the data") {
		t.Errorf("once more: %q, %v", data, err)
	}
	pipe(t, "12345678")
	if data, err := ReadPiped(8); err != nil || len(data) != 8 {
		t.Errorf("as much as the limit: %q, %v", data, err)
	}
	pipe(t, "123456789")
	if data, err := ReadPiped(8); err == nil || !strings.Contains(err.Error(), "limit") || strings.Contains(err.Error(), "9") {
		t.Errorf("more than the limit: %q, %v", data, err)
	}
	null, err := os.Open(os.DevNull)
	check(t, err)
	os.Stdin = null // as of a service; the cleanups above set it back
	if _, err := ReadPiped(8); err != errNotPiped {
		t.Errorf("where nothing can come: %v", err)
	}
	check(t, null.Close())
	if _, err := ReadPiped(8); err != errNotPiped {
		t.Errorf("where standard input is closed: %v", err)
	}
}
