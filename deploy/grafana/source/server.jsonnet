// Scalewatch itself: is it keeping up, does it keep everything, does it tell people.
local s = import 'lib.libsonnet';
local v = s.variables;
local at = 'instance=~"$instance"';

local stat(title, description, expr, unit='none', legend='__auto') = s.stat(title, description, [s.instant(expr, legend)], unit);
local rate(name, legend='__auto', by='') = s.query((if by == '' then 'sum(rate(%s{%s}[$__rate_interval]))' else 'sum by (' + by + ') (rate(%s{%s}[$__rate_interval]))') % [name, at], legend);
local quantiles(name) = [
  s.query('histogram_quantile(%s, sum by (le) (rate(%s_bucket{%s}[$__rate_interval])))' % [q, name, at], 'p' + std.substr(q, 2, 2))
  for q in ['0.50', '0.90', '0.99']
];

s.dashboard(
  'scalewatch-server',
  'Scalewatch / Server',
  'scalewatchd: ingest, lag, commits, store, alert deliveries, calls, and what clients lost.',
  [v.datasource, v.infinity, v.instance, v.runbooks],
  [
    s.at(4, 4, stat('Up', 'Whether Prometheus reaches the chosen servers; the least of them.', 'min(up{job=~".*scalewatch.*",%s})' % at)
               + s.defaults({ mappings: s.values({ '0': ['down', 'red'], '1': ['up', 'green'] }), thresholds: s.thresholds([['red', null], ['green', 1]]) })),
    s.at(4, 4, stat('History', 'degraded: the store refuses commits; live metrics and alerts go on.', 'max(scalewatch_history_degraded{%s})' % at)
               + s.defaults({ mappings: s.values({ '0': ['stored', 'green'], '1': ['degraded', 'red'] }), thresholds: s.high_is_bad(0.5, 1) })),
    s.at(4, 4, stat('Lag', 'Age of the oldest report that is not durable. IngestLag opens at 5 s.', 'max(scalewatch_ingest_lag_seconds{%s})' % at, 's')
               + s.defaults({ decimals: 2, thresholds: s.high_is_bad(1, 5) })),
    s.at(4, 4, stat('Alerts that wait', 'Notices that wait for their delivery, all sinks.', 'sum(scalewatch_alert_deliveries_pending{%s}) or vector(0)' % at)
               + s.defaults({ thresholds: s.high_is_bad(10, 100) })),
    s.at(4, 4, stat('Disk left', 'Free for scalewatchd on the disk of its data folder.', 'min(scalewatch_history_disk_free_bytes{%s})' % at, 'bytes')
               + s.defaults({ thresholds: s.low_is_bad(1e9, 1e10) })),
    s.at(4, 4, stat('Version', 'Version of the servers.', 'max by (version) (scalewatch_build_info{%s})' % at, legend='{{version}}')
               + s.word() + s.defaults({ color: s.fixed('blue') })),

    s.row('Ingest'),
    s.at(8, 8, s.series('Reports', 'Reports taken in a second. Repeated ones came twice after a reconnect and are dropped; late ones came after their attempt had closed.', [
                 rate('scalewatch_ingest_reports_total', 'taken in'),
                 rate('scalewatch_ingest_reports_repeated_total', 'repeated'),
                 rate('scalewatch_ingest_reports_late_total', 'late'),
                 rate('scalewatch_ingest_reports_rejected_total', 'refused'),
               ], 'ops')
               + s.from_zero + s.overrides([s.by_name('refused', { color: s.fixed('red') })])),
    s.at(8, 8, s.series('Records', 'Tensor records taken in a second.', [rate('scalewatch_ingest_records_total', 'records')], 'ops') + s.from_zero),
    s.at(8, 8, s.series('Streams', 'Open streams: one a rank. Fenced (right, a second): ended because a newer client of the same rank came.', [
                 s.query('sum(scalewatch_ingest_streams_open{%s})' % at, 'open'),
                 rate('scalewatch_ingest_streams_fenced_total', 'fenced'),
               ])
               + s.from_zero + s.overrides([s.by_name('fenced', { 'custom.axisPlacement': 'right', unit: 'ops', color: s.fixed('orange') })])),
    s.at(12, 8, s.series('Lag', 'Age of the oldest report that is not durable, each server. While it is under 1 s, an alert leaves within 1 s of what decides it (a lagging rank is waited for first).', [
                  s.query('scalewatch_ingest_lag_seconds{%s}' % at, '{{instance}}'),
                ], 's')
                + s.from_zero + s.limits(s.high_is_bad(1, 5))),
    s.at(12, 8, s.series('Queue', 'Bytes taken from clients and not yet durable, against the limit at which streams are no longer read.', [
                  s.query('sum(scalewatch_ingest_queued_bytes{%s})' % at, 'queued'),
                  s.query('sum(scalewatch_ingest_queue_limit_bytes{%s})' % at, 'limit'),
                ], 'bytes')
                + s.from_zero + s.overrides([s.by_name('limit', { color: s.fixed('red'), 'custom.fillOpacity': 0, 'custom.lineStyle': { fill: 'dash', dash: [8, 8] } })])),

    s.row('What clients lost'),
    s.at(12, 8, s.series('Lost, by cause', 'Reports of the interval that never come, all runs, by cause. Anything here means that trainers send more than this server takes, or that a network failed.', [
                  s.query('sum by (cause) (increase(scalewatch_run_lost_reports_total{%s}[$__rate_interval]))' % at, '{{cause}}'),
                ])
                + s.bars + s.from_zero + s.defaults({ noValue: 'None lost' })),
    s.at(12, 8, s.series('Held by clients', 'Bytes that clients hold for resending, in memory and on disk. Rises while the server is away.', [
                  s.query('sum(scalewatch_client_buffered_bytes{%s})' % at, 'in memory'),
                  s.query('sum(scalewatch_client_spooled_bytes{%s})' % at, 'on disk'),
                ], 'bytes')
                + s.from_zero),

    s.row('Store'),
    s.at(12, 9, s.heatmap('Commit duration', 'How many transactions took how long, until they were durable. A band that climbs is a disk that gets slower.',
                          s.buckets('sum by (le) (increase(scalewatch_history_commit_duration_seconds_bucket{%s}[$__rate_interval]))' % at))),
    s.at(12, 9, s.series('Commit duration, quantiles', 'The same as quantiles.', quantiles('scalewatch_history_commit_duration_seconds'), 's') + s.from_zero),
    s.at(8, 8, s.series('Commits', 'Transactions a second, and those that the store refused.', [
                 rate('scalewatch_history_commits_total', 'committed'),
                 rate('scalewatch_history_commit_errors_total', 'refused'),
               ], 'ops')
               + s.from_zero + s.overrides([s.by_name('refused', { color: s.fixed('red') })])),
    s.at(8, 8, s.series('Size of the history', 'Database, and wal: committed, not in the database yet.', [
                 s.query('sum by (file) (scalewatch_history_size_bytes{%s})' % at, '{{file}}'),
               ], 'bytes')
               + s.stacked + s.from_zero),
    s.at(8, 8, s.series('Page cache of queries', 'Share of the pages that queries asked for and found in memory. No line while nobody asks.', [
                 s.query('sum(rate(scalewatch_history_page_cache_reads_total{%(at)s,result="hit"}[$__rate_interval])) / (sum(rate(scalewatch_history_page_cache_reads_total{%(at)s}[$__rate_interval])) > 0)' % { at: at }, 'hits'),
               ], 'percentunit')
               + s.from_zero + s.defaults({ max: 1, noValue: 'No queries' })),

    s.at(8, 8, s.series('Runs and their quota', 'What the stored statistics of the largest runs take, against history.max_run_size: of what is beyond it the oldest attempts keep only summaries. Empty without that limit.', [
                 s.query('topk(10, scalewatch_run_history_bytes{%s})' % at, '{{run}}'),
                 s.query('max(scalewatch_run_history_limit_bytes{%s})' % at, 'limit'),
               ], 'bytes')
               + s.from_zero + s.overrides([s.by_name('limit', { color: s.fixed('red'), 'custom.fillOpacity': 0, 'custom.lineStyle': { fill: 'dash', dash: [8, 8] } })])
               + s.defaults({ noValue: 'No limit' })),
    s.at(8, 8, s.series('Room kept for alerts', 'Kept on the disk, given up when it is full so that alerts still find room; it comes back by itself. Below what is wanted for long: nobody would be told of a full disk.', [
                 s.query('sum(scalewatch_history_ballast_bytes{%s})' % at, 'kept'),
                 s.query('sum(scalewatch_history_ballast_wanted_bytes{%s})' % at, 'wanted'),
               ], 'bytes')
               + s.from_zero + s.overrides([s.by_name('wanted', { 'custom.fillOpacity': 0, 'custom.lineStyle': { fill: 'dash', dash: [8, 8] } })])),
    s.at(8, 8, s.series('Lost and unreadable', 'Transactions that were durable and are gone (HistoryLost), and stored alerts whose bytes are no alert (AlertsUnreadable). Both stay at 0.', [
                 s.query('sum(scalewatch_history_commits_lost_total{%s})' % at, 'transactions lost'),
                 s.query('sum(scalewatch_alerts_unreadable{%s})' % at, 'alerts unreadable'),
               ])
               + s.from_zero + s.steps),

    s.row('Alert deliveries'),
    s.at(8, 8, s.series('Deliveries', 'Notices of the interval by sink and result. Failed ones are tried again; dropped ones were given up and wait in the dead letters.', [
                 s.query('sum by (sink, result) (increase(scalewatch_alert_deliveries_total{%s}[$__rate_interval]))' % at, '{{sink}} {{result}}'),
               ])
               + s.bars + s.from_zero
               + s.overrides([s.by_regexp('/dropped$/', { color: s.fixed('red') }), s.by_regexp('/failed$/', { color: s.fixed('orange') })])
               + s.defaults({ noValue: 'No sinks' })),
    s.at(8, 8, s.series('Oldest notice that waits', 'Age of the oldest notice in the outbox, each sink. OutboxStuck fires when it stays.', [
                 s.query('max by (sink) (scalewatch_alert_delivery_oldest_seconds{%s})' % at, '{{sink}}'),
               ], 's')
               + s.from_zero + s.limits(s.high_is_bad(60, 300)) + s.defaults({ noValue: 'No sinks' })),
    s.at(8, 8, s.series('Time of a request', 'Mean time that a request to a sink took.', [
                 s.query('sum by (sink) (rate(scalewatch_alert_request_seconds_total{%(at)s}[$__rate_interval])) / (sum by (sink) (rate(scalewatch_alert_requests_total{%(at)s}[$__rate_interval])) > 0)' % { at: at }, '{{sink}}'),
               ], 's')
               + s.from_zero + s.defaults({ noValue: 'No requests' })),

    s.row('Calls and process'),
    s.at(12, 9, s.heatmap('Duration of calls', 'How many calls of the gRPC API took how long; streams are not among them.',
                          s.buckets('sum by (le) (increase(scalewatch_rpc_duration_seconds_bucket{%s}[$__rate_interval]))' % at))),
    s.at(12, 9, s.series('Duration of calls, 99%', 'The time within which 99 of 100 calls ended, by method.', [
                  s.query('histogram_quantile(0.99, sum by (le, method) (rate(scalewatch_rpc_duration_seconds_bucket{%s}[$__rate_interval]))) > 0' % at, '{{method}}'),
                ], 's')
                + s.from_zero + s.defaults({ noValue: 'No calls' })),
    s.at(12, 9, s.heatmap('Duration of HTTP requests', 'How many requests to the HTTP side took how long: the JSON API, tables for Grafana, /metrics.',
                          s.buckets('sum by (le) (increase(scalewatch_http_request_duration_seconds_bucket{%s}[$__rate_interval]))' % at))),
    s.at(12, 9, s.series('Duration of HTTP requests, 99%', 'The time within which 99 of 100 requests were answered, by route.', [
                  s.query('histogram_quantile(0.99, sum by (le, route) (rate(scalewatch_http_request_duration_seconds_bucket{%s}[$__rate_interval]))) > 0' % at, '{{route}}'),
                ], 's')
                + s.from_zero + s.defaults({ noValue: 'No requests' })),
    s.at(8, 8, s.series('HTTP requests', 'Requests a second by route and status.', [rate('scalewatch_http_requests_total', '{{route}} {{code}}', 'route, code')], 'ops') + s.from_zero + s.defaults({ noValue: 'No requests' })),
    s.at(8, 8, s.series('Calls', 'Calls a second by method and status.', [rate('scalewatch_rpcs_total', '{{method}} {{code}}', 'method, code')], 'ops') + s.from_zero + s.defaults({ noValue: 'No calls' })),
    s.at(8, 8, s.series('Processor', 'Cores that scalewatchd uses.', [s.query('rate(process_cpu_seconds_total{%s}[$__rate_interval]) and on (instance) scalewatch_build_info' % at, '{{instance}}')], 'none') + s.from_zero),
    s.at(8, 8, s.series('Memory', 'Resident memory of scalewatchd.', [s.query('process_resident_memory_bytes{%s} and on (instance) scalewatch_build_info' % at, '{{instance}}')], 'bytes') + s.from_zero),
    s.at(8, 8, s.series('Scrapes', 'Time that a scrape of this server took Prometheus, and how many samples it brought (right).', [
                 s.query('max(scrape_duration_seconds{%s} and on (instance) scalewatch_build_info)' % at, 'duration'),
                 s.query('sum(scrape_samples_scraped{%s} and on (instance) scalewatch_build_info)' % at, 'samples'),
               ], 's')
               + s.from_zero + s.overrides([s.by_name('samples', { unit: 'short', 'custom.axisPlacement': 'right', 'custom.fillOpacity': 0 })])),
    s.at(8, 8, s.series('Runs on the metrics page', 'Runs shown to Prometheus, and those that metrics.max_runs leaves out.', [
                 s.query('sum(scalewatch_runs{%s})' % at, 'shown'),
                 s.query('sum(scalewatch_runs_left_out{%s})' % at, 'left out'),
               ])
               + s.from_zero + s.steps),
    s.at(8, 8, s.series('File descriptors', 'Open, each server; a call refused for want of one shows in the log.', [
                 s.query('process_open_fds{%s} and on (instance) scalewatch_build_info' % at, '{{instance}} open'),
                 s.query('process_max_fds{%s} and on (instance) scalewatch_build_info' % at, '{{instance}} limit'),
               ])
               + s.log10),
    s.at(24, 6, s.series('Turned away', 'Callers, streams, messages and requests refused, by cause: who showed no or a wrong token, and whom a limit stopped.', [
                  s.query('sum by (cause) (increase(scalewatch_refusals_total{%s}[$__rate_interval])) > 0' % at, '{{cause}}'),
                ])
                + s.bars + s.from_zero + s.defaults({ noValue: 'Nobody' })),
  ],
)
