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
	"net/url"
	"os"
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

// Result is what happened. Errors are those of rules and expressions, each with its name.
type Result struct {
	Alerts []Alert  `json:"alerts"`
	Errors []string `json:"errors"`
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
	result := &Result{Alerts: []Alert{}, Errors: []string{}}
	for _, expression := range scenario.Expressions {
		if _, err := parser.ParseExpr(expression); err != nil {
			result.Errors = append(result.Errors, fmt.Sprintf("%s: %v", expression, err))
		}
	}
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
		// Recorded series are read by the rules of the other groups.
		for range 2 {
			for _, group := range groups {
				group.Eval(ctx, time.Unix(at, 0))
			}
		}
		collect(groups, at, result)
	}
	return result, nil
}

func scrape(ctx context.Context, db *tsdb.DB, scrape Scrape) error {
	symbols := labels.NewSymbolTable()
	text := textparse.NewPromParser([]byte(scrape.Text), symbols, false)
	appender := db.Appender(ctx)
	for {
		entry, err := text.Next()
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
		text.Labels(&series)
		builder := labels.NewBuilder(series)
		for name, value := range scrape.Target {
			// As with honorLabels.
			if !series.Has(name) {
				builder.Set(name, value)
			}
		}
		_, _, value := text.Series()
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
