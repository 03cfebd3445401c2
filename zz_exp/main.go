package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/mnist/fashion"
	"github.com/privgrad/privgrad/train"
	"github.com/goccy/go-yaml"
)



// usage: exp seeds "name|optimizer|lr|yaml of search" ...
func main() {
	var seeds []int
	for _, f := range strings.Split(os.Args[1], ",") {
		n, _ := strconv.Atoi(f)
		seeds = append(seeds, n)
	}
	type job struct {
		line string
		seed int
	}
	jobs := make(chan job)
	var wg sync.WaitGroup
	var mu sync.Mutex
	res := map[string][]string{}
	for w := 0; w < 2; w++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := range jobs {
				f := strings.SplitN(j.line, "|", 4)
				c := train.Default()
				c.Optimizer = f[1]
				lr, _ := strconv.ParseFloat(f[2], 64)
				c.LR = &lr
				q, e, d, s := 0.005, 1.40726, 1e-8, 1000
				c.SamplingRate, c.Epsilon, c.Delta, c.Steps = &q, &e, &d, &s
				c.Seed, c.Device, c.Threads, c.EvalEvery = uint64(j.seed), "cpu", 1, 250
				if strings.HasPrefix(f[3], "cosine") { c.LRSchedule = "cosine"; f[3] = strings.TrimSpace(f[3][6:]) }
				if f[3] != "" {
					c.Search = &train.Search{}
					if err := yaml.Unmarshal([]byte(f[3]), c.Search); err != nil {
						panic(err)
					}
				}
				dir, _ := os.MkdirTemp("", "exp")
				r, err := train.Run(context.Background(), c, train.Options{Sources: sources(), Out: dir})
				if err != nil {
					fmt.Println(j.line, err)
					continue
				}
				b, _ := os.ReadFile(dir + "/metrics.jsonl")
				lrs := ""
				for _, l := range strings.Split(string(b), "\n") {
					if i := strings.Index(l, `"lr":`); i > 0 {
						x := l[i+5:]
						x = x[:strings.IndexAny(x, ",}")]
						if len(x) > 6 && !strings.Contains(x, "e") { x = x[:6] }
						lrs += " " + x
					}
				}
				os.RemoveAll(dir)
				mu.Lock()
				res[f[0]] = append(res[f[0]], fmt.Sprintf("%.2f", 100**r.TestAccuracy))
				fmt.Printf("%-34s lr0 %-5s seed %d: %.2f  lr:%s\n", f[0], f[2], j.seed, 100**r.TestAccuracy, lrs)
				mu.Unlock()
			}
		}()
	}
	for _, line := range os.Args[2:] {
		for _, s := range seeds {
			jobs <- job{line, s}
		}
	}
	close(jobs)
	wg.Wait()
}

func sources() map[string]train.Source { return map[string]train.Source{"fmnist": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return fashion.Open() }}} }
