package config

import "testing"

func ptr[T any](x T) *T { return &x }

// small is a short private run.
func small() Config {
	c := Default()
	c.Data, c.Model, c.Classes = "made", "logistic", []int{0, 1}
	c.NoiseMultiplier, c.Batch, c.Steps = ptr(1.0), ptr(40.0), ptr(24)
	c.LR, c.EvalEvery, c.Threads = ptr(0.5), 5, 1
	return c
}

// tableConfig is a short private run on a table.
func tableConfig() Config {
	c := Default()
	c.Data, c.PublicN, c.Delta = "csv:t.csv", ptr(2000), ptr(1e-5)
	c.NoiseMultiplier, c.Batch, c.Steps, c.Threads = ptr(1.0), ptr(200.0), ptr(30), 1
	return c
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
