// Command alertrules runs a Prometheus rule file over scrapes and prints what its alerts do.
//
// Prometheus' own parser, storage and rule engine do the work; promtool, which would do as well,
// needs modules that not every proxy has. Standard input is a scenario, standard output a result,
// both JSON. Times are seconds since the start of the scenario.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
)

// Scrape is the exposition text of one target at one time.
type Scrape struct {
	At     int64             `json:"at"`
	Target map[string]string `json:"target"`
	Text   string            `json:"text"`
}

// Scenario says what to run. Scrapes are in order of time.
type Scenario struct {
	Rules       string   `json:"rules"`
	Expressions []string `json:"expressions"`
	Scrapes     []Scrape `json:"scrapes"`
	Interval    int64    `json:"interval"`
	Until       int64    `json:"until"`
}

// Alert is one active alert after an evaluation.
type Alert struct {
	At          int64             `json:"at"`
	State       string            `json:"state"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Result is what happened. Errors are those of rules and expressions, each with its name. Unmatched
// are the selectors of the expressions for which no series was scraped or recorded.
type Result struct {
	Alerts    []Alert  `json:"alerts"`
	Errors    []string `json:"errors"`
	Unmatched []string `json:"unmatched"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "alertrules:", err)
		os.Exit(1)
	}
}

func run() error {
	var scenario Scenario
	if err := json.NewDecoder(os.Stdin).Decode(&scenario); err != nil {
		return fmt.Errorf("standard input is not a scenario: %w", err)
	}
	directory, err := os.MkdirTemp("", "alertrules")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	options := tsdb.DefaultOptions()
	options.MinBlockDuration = (24 * time.Hour).Milliseconds()
	options.MaxBlockDuration = options.MinBlockDuration
	options.RetentionDuration = 0
	// No log on disk: nothing outlives the process.
	options.WALSegmentSize = -1
	db, err := tsdb.Open(directory, nil, nil, options, tsdb.NewDBStats())
	if err != nil {
		return err
	}
	defer db.Close()
	result, err := evaluate(context.Background(), db, scenario)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

func evaluate(ctx context.Context, db *tsdb.DB, scenario Scenario) (*Result, error) {
	result := &Result{Alerts: []Alert{}, Errors: []string{}, Unmatched: []string{}}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute})
	manager := rules.NewManager(&rules.ManagerOptions{
		ExternalURL: &url.URL{}, Context: ctx, Appendable: db, Queryable: db,
		QueryFunc:  rules.EngineQueryFunc(engine, db),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	interval := time.Duration(scenario.Interval) * time.Second
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, scenario.Rules)
	for _, err := range errs {
		result.Errors = append(result.Errors, err.Error())
	}
	next := 0
	for at := int64(0); at <= scenario.Until && len(errs) == 0; at += scenario.Interval {
		for ; next < len(scenario.Scrapes) && scenario.Scrapes[next].At <= at; next++ {
			if err := scrape(ctx, db, scenario.Scrapes[next]); err != nil {
				return nil, err
			}
		}
		// Groups do not wait for each other: alerts read what was recorded one interval before.
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			groups[name].Eval(ctx, time.Unix(at, 0))
		}
		collect(groups, at, result)
	}
	return result, inspect(ctx, db, scenario, result)
}

// inspect parses the expressions and looks for the series that they select.
func inspect(ctx context.Context, db *tsdb.DB, scenario Scenario, result *Result) error {
	querier, err := db.Querier(0, scenario.Until*1000)
	if err != nil {
		return err
	}
	defer querier.Close()
	for _, expression := range scenario.Expressions {
		parsed, err := parser.ParseExpr(expression)
		if err != nil {
			result.Errors = append(result.Errors, fmt.Sprintf("%s: %v", expression, err))
			continue
		}
		for _, selector := range parser.ExtractSelectors(parsed) {
			selected := querier.Select(ctx, false, nil, selector...)
			if !selected.Next() {
				result.Unmatched = append(result.Unmatched, text(selector))
			}
			if err := selected.Err(); err != nil {
				return fmt.Errorf("%s: %w", expression, err)
			}
		}
	}
	return nil
}

// text writes a selector as expressions have it, without labels of every series.
func text(selector []*labels.Matcher) string {
	name, matchers := "", []string{}
	for _, matcher := range selector {
		switch matcher.Name {
		case labels.MetricName:
			name = matcher.Value
		case "job":
		default:
			matchers = append(matchers, matcher.String())
		}
	}
	if len(matchers) == 0 {
		return name
	}
	return name + "{" + strings.Join(matchers, ",") + "}"
}

func scrape(ctx context.Context, db *tsdb.DB, scrape Scrape) error {
	symbols := labels.NewSymbolTable()
	lines := textparse.NewPromParser([]byte(scrape.Text), symbols, false)
	appender := db.Appender(ctx)
	for {
		entry, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return appender.Commit()
		}
		if err != nil {
			return fmt.Errorf("the text scraped at %d: %w", scrape.At, err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var series labels.Labels
		lines.Labels(&series)
		builder := labels.NewBuilder(series)
		for name, value := range scrape.Target {
			// As with honorLabels.
			if !series.Has(name) {
				builder.Set(name, value)
			}
		}
		_, _, value := lines.Series()
		if _, err := appender.Append(0, builder.Labels(), scrape.At*1000, value); err != nil {
			return fmt.Errorf("%s at %d: %w", series, scrape.At, err)
		}
	}
}

func collect(groups map[string]*rules.Group, at int64, result *Result) {
	for _, group := range groups {
		for _, rule := range group.Rules() {
			if err := rule.LastError(); err != nil {
				result.Errors = append(result.Errors, fmt.Sprintf("%s at %d: %v", rule.Name(), at, err))
			}
		}
		for _, rule := range group.AlertingRules() {
			for _, active := range rule.ActiveAlerts() {
				result.Alerts = append(result.Alerts, Alert{
					at, active.State.String(), active.Labels.Map(), active.Annotations.Map(),
				})
			}
		}
	}
}
