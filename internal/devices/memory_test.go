package devices

import "testing"

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "08GiB": 8 << 30, "8GiB": 8 << 30, "010": 10, "512MiB": 512 << 20, "1.5KiB": 1536, "2 GiB": 2 << 30, "1e3MB": 1e9, "1TiB": 1 << 40, "7B": 7,
	} {
		if got, err := ParseMemory(text); got != want || err != nil {
			t.Errorf("%q is read as %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"GiB", "0", "-1GiB", "0x8GiB", "0x8p2MiB", "1_000MiB", "2GiB,3", "2GiB 3", "2 Gi B", "nan", "inf", "infGiB", "9999999TiB", "2gib"} {
		if got, err := ParseMemory(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}
