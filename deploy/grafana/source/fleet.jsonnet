// All runs, worst first: where an on-call looks first.
local s = import 'lib.libsonnet';
local v = s.variables;
local runs = 'run=~"$run"';
local worst = |||
  max by (run) (
      3 * (scalewatch_findings_open{%(runs)s,severity="critical"} > bool 0)
    or 2 * (scalewatch_findings_open{%(runs)s,severity="warning"} > bool 0)
    or (scalewatch_findings_open{%(runs)s,severity="info"} > bool 0)
  )
||| % { runs: runs };
// The worst of the time shown, also when the run has ended and its findings with it.
local worst_seen = |||
  max by (run) (
      3 * (max_over_time(scalewatch_findings_open{%(runs)s,severity="critical"}[$__range]) > bool 0)
    or 2 * (max_over_time(scalewatch_findings_open{%(runs)s,severity="warning"}[$__range]) > bool 0)
    or (max_over_time(scalewatch_findings_open{%(runs)s,severity="info"}[$__range]) > bool 0)
  )
||| % { runs: runs };
local missing = |||
  max by (run) (scalewatch_ranks{%(runs)s} - scalewatch_ranks_connected{%(runs)s} - scalewatch_ranks_finished{%(runs)s})
    * on (run) max by (run) (scalewatch_run_status{%(runs)s,status!="finished"} == 1)
||| % { runs: runs };

local count(title, description, expr, thresholds) =
  s.stat(title, description, [s.instant(expr)]) + s.defaults({ thresholds: thresholds, decimals: 0 });

s.dashboard(
  'scalewatch-fleet',
  'Scalewatch / Fleet',
  'All runs that Scalewatch watches, worst first. A run opens its own page.',
  [v.datasource, v.infinity, v.label, v.label_value, v.runs, v.runbooks],
  [
    s.at(4, 4, count('Training', 'Runs with a connected rank, or silent for less than a minute.',
                     'sum(scalewatch_run_status{%s,status="running"}) or vector(0)' % runs, s.thresholds([['blue', null]]))),
    s.at(4, 4, count('Critical', 'Runs with an open critical finding: the run is being lost. See the table below.',
                     'count((%s) == 3) or vector(0)' % worst, s.thresholds([['green', null], ['red', 1]]))),
    s.at(4, 4, count('Warning', 'Runs whose worst open finding is a warning.',
                     'count((%s) == 2) or vector(0)' % worst, s.thresholds([['green', null], ['orange', 1]]))),
    s.at(4, 4, count('Lost', 'Runs whose ranks went silent without a goodbye.',
                     'sum(scalewatch_run_status{%s,status="lost"}) or vector(0)' % runs, s.thresholds([['green', null], ['red', 1]]))),
    s.at(4, 4, count('Ranks away', 'Ranks of runs that are not finished which are neither connected nor said goodbye.',
                     'sum(%s) or vector(0)' % missing, s.thresholds([['green', null], ['orange', 1]]))),
    s.at(4, 4, count('Runs not shown', 'Runs that metrics.max_runs keeps out of Prometheus; the worst ones are always in.',
                     'sum(scalewatch_runs_left_out) or vector(0)', s.thresholds([['green', null], ['orange', 1]]))),

    s.at(24, 11,
         s.grid('Runs, worst first', 'One row a run: its worst open finding, the worst of the time shown (Was), and the numbers that tell how near it is to trouble. Click a run to open it.', [
           s.rows(worst),
           s.rows('max by (run, status) (scalewatch_run_status{%s} == 1)' % runs),
           s.rows('sum by (run) (scalewatch_findings_open{%s})' % runs),
           s.rows('max by (run) (scalewatch_scaler_skip_ratio{%s})' % runs),
           s.rows('max by (run) (scalewatch_scaler_consecutive_skips{%s})' % runs),
           s.rows('min by (run) (scalewatch_scaler_scale{%s})' % runs),
           s.rows('min by (run) (scalewatch_headroom_octaves{%s})' % runs),
           s.rows('max by (run) (scalewatch_underflow_ratio{%s})' % runs),
           s.rows('max by (run) (scalewatch_loss{%s})' % runs),
           s.rows(missing),
           s.rows('sum by (run) (rate(scalewatch_attempts_total{%s}[$__rate_interval]))' % runs),
           s.rows('max by (run) (time() - (scalewatch_last_report_timestamp_seconds{%s} > 0))' % runs),
           s.rows('max by (run, dtype, policy, world_size) (scalewatch_run_info{%s})' % runs),
           s.rows(worst_seen),
         ])
         + s.columns([
           ['run', 'Run'], ['Value #A', 'Worst'], ['Value #N', 'Was'], ['status', 'State'], ['Value #C', 'Findings'], ['Value #D', 'Skipped'],
           ['Value #E', 'In a row'], ['Value #F', 'Scale'], ['Value #G', 'Headroom'], ['Value #H', 'Subnormal'], ['Value #I', 'Loss'],
           ['Value #J', 'Ranks away'], ['Value #K', 'Attempts/s'], ['Value #L', 'Silent for'], ['dtype', 'Type'], ['policy', 'Scaler'],
           ['world_size', 'Ranks'],
         ], ['Value #B', 'Value #M'])
         + s.sorted(['Worst', 'Was', 'Skipped'])
         + s.overrides([
           s.by_name('Run', { links: [s.to_run], 'custom.width': 200 }),
           s.by_name('Worst', { mappings: s.severities, 'custom.cellOptions': s.color_background, 'custom.width': 90 }),
           s.by_name('Was', { mappings: s.severities, 'custom.cellOptions': { type: 'color-text' }, 'custom.width': 80 }),
           s.by_name('Skipped', { unit: 'percentunit', decimals: 1, thresholds: s.high_is_bad(0.05, 0.25), 'custom.cellOptions': { type: 'color-text' } }),
           s.by_name('In a row', { thresholds: s.high_is_bad(3, 5), 'custom.cellOptions': { type: 'color-text' } }),
           s.by_name('Headroom', { decimals: 1, thresholds: s.low_is_bad(1, 2), 'custom.cellOptions': { type: 'color-text' } }),
           s.by_name('Subnormal', { unit: 'percentunit', decimals: 1, thresholds: s.high_is_bad(0.2, 0.5), 'custom.cellOptions': { type: 'color-text' } }),
           s.by_name('Loss', { decimals: 4 }),
           s.by_name('Attempts/s', { decimals: 1 }),
           s.by_name('Silent for', { unit: 's', decimals: 0 }),
         ])),

    s.at(12, 8, s.series('Open findings', 'Open findings of all chosen runs by severity. A step up is when somebody should have been told.', [
                  s.query('sum by (severity) (scalewatch_findings_open{%s})' % runs, '{{severity}}'),
                ])
                + s.stacked + s.steps + s.from_zero
                + s.overrides([
                  s.by_name('critical', { color: s.fixed('red') }),
                  s.by_name('warning', { color: s.fixed('orange') }),
                  s.by_name('info', { color: s.fixed('blue') }),
                ])),
    s.at(12, 8, s.grid('Findings by rule', 'Which rules have open findings and in how many runs. A rule opens its runbook.', [
                  s.rows('count by (rule, severity) (scalewatch_rule_findings_open{%s} > 0)' % runs),
                ])
                + s.columns([['rule', 'Rule'], ['severity', 'Severity'], ['Value', 'Runs']])
                + s.sorted(['Runs'])
                + s.overrides([
                  s.by_name('Rule', { links: [s.to_runbook('Rule')] }),
                  s.by_name('Severity', { mappings: s.severity_names, 'custom.cellOptions': s.color_background }),
                ])
                + s.defaults({ noValue: 'No open findings' })),

    s.at(12, 8, s.series('Skip ratio, ten worst', 'Share of skipped attempts among the newest 200 of a scaler. A healthy run with a growth interval of 2000 stays near 0.0005.', [
                  s.query('topk(10, max by (run) (scalewatch_scaler_skip_ratio{%s}))' % runs, '{{run}}'),
                ], 'percentunit')
                + s.from_zero + s.limits(s.high_is_bad(0.05, 0.25)) + s.defaults({ links: [s.series_to_run] }) + s.legend_table(['lastNotNull', 'max'])),
    s.at(12, 8, s.series('Least headroom, ten nearest to overflow', 'Octaves between the largest magnitude of a run and the largest value of its format. Under 2 a finding opens; at 0 it overflows.', [
                  s.query('bottomk(10, min by (run) (scalewatch_headroom_octaves{%s}))' % runs, '{{run}}'),
                ])
                + s.from_zero + s.limits(s.low_is_bad(1, 2)) + s.defaults({ links: [s.series_to_run] }) + s.legend_table(['lastNotNull', 'min'])),

    s.at(12, 8, s.series('Attempts', 'Optimizer steps a second of all chosen runs, by what became of them.', [
                  s.query('sum by (outcome) (rate(scalewatch_attempts_total{%s}[$__rate_interval]))' % runs, '{{outcome}}'),
                ], 'ops')
                + s.stacked + s.from_zero
                + s.overrides([
                  s.by_name('applied', { color: s.fixed('green') }),
                  s.by_name('skipped', { color: s.fixed('red') }),
                  s.by_name('partial', { color: s.fixed('yellow') }),
                ])),
    s.at(12, 8, s.series('Reports lost', 'Reports a second that clients dropped, by cause; 0 is normal. What is lost is never silent: each has a cause and a range.', [
                  s.query('sum by (cause) (rate(scalewatch_run_lost_reports_total{%s}[$__rate_interval]))' % runs, '{{cause}}'),
                ], 'ops')
                + s.stacked + s.from_zero + s.defaults({ noValue: 'None lost' })),
  ],
)
