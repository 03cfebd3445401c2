package rundir

import (
	"strings"
	"testing"
)

// A folder is called that.
func TestFolderIsNoModel(t *testing.T) {
	if _, _, err := ReadTensors(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("the error is %v", err)
	}
}
