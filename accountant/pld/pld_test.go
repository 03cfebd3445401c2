package pld

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	b, _ := os.ReadFile("/work/shared/vectors/sgm_epsilon.json")
	var v struct {
		Vectors []struct {
			Q, Sigma, Delta float64
			Steps           int
			Pld             float64 `json:"pld_eps_pess_connect_dots"`
		}
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	for _, x := range v.Vectors {
		start := time.Now()
		r, err := Epsilon([]Step{{[]Pair{Gaussian(1 / x.Sigma)}, x.Q, x.Steps}}, false, x.Delta)
		fmt.Println(x.Q, x.Sigma, x.Steps, x.Delta, x.Pld, r, (r.Upper-r.Lower)/r.Upper, err, time.Since(start))
	}
}
