// Command dashboard checks a Grafana dashboard by Grafana's published schema.
//
// It reads the dashboard from standard input, and prints a line for each field that the schema does
// not have, that has the wrong type, or that is missing. The Go types that Grafana generates from
// its schema do the work: of the dashboard, of each type of panel, and of queries of Prometheus.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, problem := range problems(text) {
		fmt.Println(problem)
	}
}

func problems(text []byte) []error {
	plugins.RegisterDefaultPlugins()
	var read dashboard.Dashboard
	if found := flattened(read.UnmarshalJSONStrict(text)); len(found) > 0 {
		return found
	}
	return flattened(read.Validate())
}

// flattened is needed because the decoder returns an empty list, not nil, if all is well.
func flattened(err error) []error {
	var several cog.BuildErrors
	if !errors.As(err, &several) {
		if err == nil {
			return nil
		}
		return []error{err}
	}
	found := make([]error, 0, len(several))
	for _, each := range several {
		found = append(found, each)
	}
	return found
}
