// One run: is it healthy, and if not, since when, where and why.
local s = import 'lib.libsonnet';
local v = s.variables;
local run = 'run="$run"';
local scaler = 'run="$run",scaler=~"$scaler"';

local stat(title, description, expr, unit='none', legend='__auto') = s.stat(title, description, [s.instant(expr, legend)], unit);

s.dashboard(
  'scalewatch-run',
  'Scalewatch / Run',
  'One run: its loss scale, skips and findings, what is near overflow, and its ranks.',
  [v.datasource, v.infinity, v.label, v.label_value, v.run, v.scaler, v.runbooks],
  [
    s.at(3, 4, stat('State', 'running, finished (every rank said goodbye) or lost (they went silent without).',
                    'max by (status) (scalewatch_run_status{%s} == 1)' % run, legend='{{status}}')
               + s.word() + s.defaults({ color: s.fixed('blue') })),
    s.at(3, 4, stat('Worst finding', 'Worst finding that was open in the time shown; it may be resolved by now, or the run ended. The table below tells.',
                    |||
                      max(3 * (max_over_time(scalewatch_findings_open{%(run)s,severity="critical"}[$__range]) > bool 0)
                        or 2 * (max_over_time(scalewatch_findings_open{%(run)s,severity="warning"}[$__range]) > bool 0)
                        or (max_over_time(scalewatch_findings_open{%(run)s,severity="info"}[$__range]) > bool 0))
                    ||| % { run: run })
               + s.defaults({ mappings: s.severities, thresholds: s.thresholds([['green', null], ['blue', 1], ['orange', 2], ['red', 3]]) })),
    s.at(3, 4, stat('Loss scale', 'Newest loss scale; the least one where there are several scalers.', 'min(scalewatch_scaler_scale{%s})' % scaler)
               + s.defaults({ thresholds: s.thresholds([['red', null], ['orange', 0.0078125], ['green', 1]]) })),
    s.at(3, 4, stat('Skipped', 'Share of skipped attempts among the newest 200 at most.', 'max(scalewatch_scaler_skip_ratio{%s})' % scaler, 'percentunit')
               + s.defaults({ decimals: 1, thresholds: s.high_is_bad(0.05, 0.25) })),
    s.at(3, 4, stat('Skips in a row', 'Attempts skipped in a row up to now. ConsecutiveSkips opens at 5.', 'max(scalewatch_scaler_consecutive_skips{%s})' % scaler)
               + s.defaults({ thresholds: s.high_is_bad(3, 5) })),
    s.at(3, 4, stat('Least headroom', 'Octaves left to overflow in the tensor that has the least.', 'min(scalewatch_headroom_octaves{%s})' % run)
               + s.defaults({ decimals: 1, thresholds: s.low_is_bad(1, 2) })),
    s.at(3, 4, stat('Ranks here', 'Connected ranks; those that said goodbye count as here.',
                    'sum(scalewatch_ranks_connected{%(run)s} + scalewatch_ranks_finished{%(run)s}) / sum(scalewatch_ranks{%(run)s})' % { run: run }, 'percentunit')
               + s.defaults({ decimals: 0, thresholds: s.thresholds([['red', null], ['orange', 0.99], ['green', 1]]) })),
    s.at(3, 4, stat('Silent for', 'Time since the last report arrived. Normal after the end of a run.',
                    'time() - max(scalewatch_last_report_timestamp_seconds{%s} > 0)' % run, 's')
               + s.defaults({ decimals: 0, thresholds: s.high_is_bad(60, 600) })),

    s.row('Loss scale'),
    s.at(16, 10, s.series('Loss scale and skips', 'The scale on a log2 axis: healthy runs climb slowly and fall by one octave now and then. A red mark is an interval with skipped attempts. A scale of 0 cannot be drawn: the line ends there.', [
                   s.query('scalewatch_scaler_scale{%s} > 0' % scaler, 'scale {{scaler}}'),
                   s.query('(scalewatch_scaler_scale{%(s)s} > 0) and on (run, scaler) (increase(scalewatch_scaler_attempts_total{%(s)s,outcome="skipped"}[$__rate_interval]) > 0)' % { s: scaler }, 'skips {{scaler}}'),
                   s.query('scalewatch_scaler_scale_floor{%s} > 0' % scaler, 'floor {{scaler}}'),
                 ])
                 + s.log2 + s.steps
                 + s.overrides([
                   s.by_regexp('/^skips .*/', { 'custom.drawStyle': 'points', 'custom.pointSize': 7, 'custom.showPoints': 'always', color: s.fixed('red') }),
                   s.by_regexp('/^floor .*/', { 'custom.lineStyle': { fill: 'dash', dash: [8, 8] }, 'custom.fillOpacity': 0, color: s.fixed('orange') }),
                 ])),
    s.at(8, 10, s.series('Room of the loss scale', 'Octaves that the scale can still move: up, until the largest gradient overflows, and down to the floor of its policy. Near 0 either way the scaler is stuck.', [
                  s.query('min(scalewatch_headroom_octaves{%s,role="gradient"})' % run, 'up: headroom of gradients'),
                  s.query('min by (scaler) (log2(scalewatch_scaler_scale{%(s)s} > 0) - log2(scalewatch_scaler_scale_floor{%(s)s} > 0))' % { s: scaler }, 'down: {{scaler}} above its floor'),
                ])
                + s.limits(s.low_is_bad(1, 2)) + s.steps),

    s.at(8, 8, s.series('Attempts', 'Attempts a second by outcome.', [
                 s.query('sum by (outcome) (rate(scalewatch_attempts_total{%s}[$__rate_interval]))' % run, '{{outcome}}'),
               ], 'ops')
               + s.stacked + s.from_zero
               + s.overrides([
                 s.by_name('applied', { color: s.fixed('green') }),
                 s.by_name('skipped', { color: s.fixed('red') }),
                 s.by_name('partial', { color: s.fixed('yellow') }),
               ])),
    s.at(8, 8, s.series('Skip ratio and skips in a row', 'Left: share of skipped attempts among the newest 200. Right: attempts skipped in a row.', [
                 s.query('scalewatch_scaler_skip_ratio{%s}' % scaler, 'ratio {{scaler}}'),
                 s.query('scalewatch_scaler_consecutive_skips{%s}' % scaler, 'in a row {{scaler}}'),
               ], 'percentunit')
               + s.from_zero
               + s.overrides([s.by_regexp('/^in a row .*/', { unit: 'none', 'custom.axisPlacement': 'right', 'custom.fillOpacity': 0, color: s.fixed('red') })])),
    s.at(8, 8, s.series('Growth tracker', 'Clean attempts since the scale last changed: it climbs to the growth interval and starts again. One that stands while attempts are applied is a fault. Hysteresis: overflows left before the scale falls.', [
                 s.query('scalewatch_scaler_growth_tracker{%s}' % scaler, 'tracker {{scaler}}'),
                 s.query('scalewatch_scaler_hysteresis{%s}' % scaler, 'hysteresis {{scaler}}'),
               ])
               + s.from_zero),

    s.row('What went wrong'),
    s.at(24, 9, s.grid('Findings', 'All findings of the run, open ones first: what was found, where it began and what to do. A rule opens its runbook. From the JSON API.', [
                  s.table('findings', [
                    ['time', s.timestamp, 'Since'], ['severity', 'string', 'Severity'], ['state', 'string', 'State'], ['rule', 'string', 'Rule'],
                    ['text', 'string', 'What'], ['tensor', 'string', 'Tensor'], ['rank', 'number', 'Rank'], ['advice', 'string', 'Do'],
                  ], format='table'),
                ])
                + s.overrides([
                  s.by_name('Severity', { mappings: s.severity_names, 'custom.cellOptions': s.color_background, 'custom.width': 80 }),
                  s.by_name('State', { 'custom.width': 80 }),
                  s.by_name('Rule', { links: [s.to_runbook('Rule')], 'custom.width': 170 }),
                  s.by_name('Rank', { 'custom.width': 60 }),
                  s.by_name('Since', { unit: 'dateTimeAsIso', 'custom.width': 160 }),
                ])
                + s.defaults({ noValue: 'No findings' })),
    s.at(8, 8, s.series('Skips by reason', 'What was non-finite first in the order that values flow, for the skipped attempts of each interval.', [
                 s.query('sum by (reason) (increase(scalewatch_skips_total{%s}[$__rate_interval]))' % run, '{{reason}}'),
               ])
               + s.bars + s.from_zero + s.defaults({ noValue: 'No skips' })),
    s.at(8, 8, s.series('Open findings by rule', 'When which rule had open findings.', [
                  s.query('sum by (rule) (scalewatch_rule_findings_open{%s})' % run, '{{rule}}'),
                ])
                + s.stacked + s.steps + s.from_zero + s.defaults({ noValue: 'No findings', decimals: 0 })),
    s.at(8, 8, s.series('Loss and gradient norm', 'Newest loss (left) and the gradient norm that the trainer told (right). NaN and infinities end the line.', [
                  s.query('scalewatch_loss{%s}' % run, 'loss'),
                  s.query('scalewatch_gradient_norm{%s}' % run, 'gradient norm'),
                ])
                + s.log10
                + s.overrides([s.by_name('gradient norm', { 'custom.axisPlacement': 'right', 'custom.fillOpacity': 0 })])),

    s.row('Numerics'),
    s.at(12, 9, s.series('Headroom by role', 'Octaves between the largest magnitude of any tensor of the role and the largest value of its format, as stored. Gradients are under the loss scale.', [
                  s.query('min by (role) (scalewatch_headroom_octaves{%s})' % run, '{{role}}'),
                ])
                + s.limits(s.low_is_bad(1, 2)) + s.legend_table(['lastNotNull', 'min'])),
    s.at(12, 9, s.panel('bargauge', 'Tensors nearest to overflow', 'Headroom in octaves of the tensors that have the least (metrics.top_tensors). Their history over attempts is on the Numerics page.', [
                  s.instant('sort(min by (tensor, role) (scalewatch_tensor_headroom_octaves{%s}))' % run, '{{tensor}} ({{role}})'),
                ])
                + s.defaults({ color: { mode: 'thresholds' }, min: 0, max: 16, decimals: 1, thresholds: s.low_is_bad(1, 2), links: [
                  s.link('History', '/d/scalewatch-numerics/scalewatch-numerics?var-run=${run:percentencode}&var-tensor=${__field.labels.tensor:percentencode}&var-role=${__field.labels.role}&${datasource:queryparam}&${infinity:queryparam}&${__url_time_range}'),
                ] })
                + { options: {
                  displayMode: 'basic', orientation: 'horizontal', valueMode: 'color', showUnfilled: true, sizing: 'auto', minVizWidth: 8,
                  minVizHeight: 14, maxVizHeight: 28, namePlacement: 'left',
                  legend: { showLegend: false, displayMode: 'list', placement: 'bottom', calcs: [] },
                  reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
                } }),

    s.row('Ranks'),
    s.at(8, 8, s.series('Ranks', 'Ranks that are connected, of those that the run has. A gap that stays is a lost rank.', [
                 s.query('scalewatch_ranks{%s}' % run, 'world size'),
                 s.query('scalewatch_ranks_connected{%s}' % run, 'connected'),
                 s.query('scalewatch_ranks_finished{%s}' % run, 'said goodbye'),
               ])
               + s.from_zero + s.steps + s.custom({ fillOpacity: 0 }) + s.defaults({ decimals: 0 })),
    s.at(16, 8, s.grid('Ranks now', 'Each rank: where it runs, when it was last heard of, and what its client lost. From the JSON API.', [
                  s.table('ranks', [
                    ['rank', 'number', 'Rank'], ['state', 'string', 'State'], ['host', 'string', 'Host'], ['gpu_uuid', 'string', 'GPU'],
                    ['last_attempt', 'number', 'Last attempt'], ['last_seen', s.timestamp, 'Last seen'], ['lost_reports', 'number', 'Lost'],
                    ['thinned_reports', 'number', 'Thinned'], ['buffered_bytes', 'number', 'Buffered'],
                    ['trainer_thread_ms', 'number', "Trainer's thread"],
                  ]),
                ])
                + s.overrides([
                  s.by_name('Last seen', { unit: 'dateTimeAsIso' }),
                  s.by_name('Lost', { thresholds: s.thresholds([['text', null], ['red', 1]]), 'custom.cellOptions': { type: 'color-text' } }),
                  s.by_name('Buffered', { unit: 'bytes' }),
                  s.by_name("Trainer's thread", { unit: 'ms', decimals: 1 }),
                ])),
    s.at(12, 7, s.series('What monitoring costs', "Seconds a second, all ranks together: on the trainers' threads, in passes over host data, in the clients' own threads and on the GPU.", [
                  s.query('rate(scalewatch_client_trainer_thread_seconds_total{%s}[$__rate_interval])' % run, "trainers' threads"),
                  s.query('rate(scalewatch_client_measure_seconds_total{%s}[$__rate_interval])' % run, 'passes over host data'),
                  s.query('rate(scalewatch_client_thread_seconds_total{%s}[$__rate_interval])' % run, "clients' threads"),
                  s.query('rate(scalewatch_client_gpu_seconds_total{%s}[$__rate_interval])' % run, 'GPU'),
                ], 'percentunit')
                + s.from_zero),
    s.at(12, 7, s.series('Reports lost or thinned', 'Reports of the interval that never come, or came without their full statistics, by cause.', [
                  s.query('increase(scalewatch_run_lost_reports_total{%s}[$__rate_interval])' % run, 'lost: {{cause}}'),
                  s.query('increase(scalewatch_run_thinned_reports_total{%s}[$__rate_interval])' % run, 'thinned: {{cause}}'),
                ])
                + s.bars + s.from_zero + s.defaults({ noValue: 'None' })),
  ],
  annotations=[s.finding_annotation('critical', 'red'), s.finding_annotation('warning', 'orange')],
  time='now-1h',
)
