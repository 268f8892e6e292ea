// What the four dashboards are made of. deploy/grafana/generate turns *.jsonnet into deploy/grafana/dashboards/*.json.
//
// Why Jsonnet and not the Foundation SDK: a dashboard is a tree of defaults with a few changes, which is what Jsonnet's + is for; it is
// one small Debian package, so that the test that regenerates needs no registry of another language; and the SDK has no types for the
// Infinity data source. The types that a generator lacks are checked on its output, against @grafana/schema (tests/grafana/schema).
local prometheus = { type: 'prometheus', uid: '${datasource}' };
local infinity = { type: 'yesoreyeram-infinity-datasource', uid: '${infinity}' };
local period = [{ key: 'from', value: '${__from}' }, { key: 'to', value: '${__to}' }];
local run_filter = 'label_$label=~"$label_value"';

{
  prometheus:: prometheus,
  infinity:: infinity,

  // ---- queries ------------------------------------------------------------------------------------------------------
  query(expr, legend='__auto'):: {
    datasource: prometheus,
    expr: expr,
    legendFormat: legend,
    editorMode: 'code',
    range: true,
    instant: false,
  },
  // One value a series, now.
  instant(expr, legend='__auto'):: $.query(expr, legend) + { range: false, instant: true },
  // The same as rows of a table.
  rows(expr):: $.instant(expr) + { format: 'table' },
  // Buckets of a histogram for a heat map.
  buckets(expr):: $.query(expr, '{{le}}') + { format: 'heatmap' },

  // Rows of scalewatchd's JSON tables. columns: [selector, type] or [selector, type, text].
  table(path, columns, params={}, format='table'):: {
    datasource: infinity,
    type: 'json',
    parser: 'backend',
    source: 'url',
    format: format,
    root_selector: '',
    url: '/api/v1/table/runs/${run:percentencode}/' + path,
    url_options: {
      method: 'GET',
      data: '',
      params: period + [{ key: key, value: std.toString(params[key]) } for key in std.objectFields(params)],
    },
    columns: [
      { selector: column[0], text: if std.length(column) > 2 then column[2] else column[0], type: column[1] }
      for column in columns
    ],
    filters: [],
  },
  timestamp:: 'timestamp_epoch',

  // ---- fields -------------------------------------------------------------------------------------------------------
  thresholds(steps):: { mode: 'absolute', steps: [{ color: step[0], value: step[1] } for step in steps] },
  low_is_bad(critical, warning):: $.thresholds([['red', null], ['orange', critical], ['green', warning]]),
  high_is_bad(warning, critical):: $.thresholds([['green', null], ['orange', warning], ['red', critical]]),
  values(map):: [{
    type: 'value',
    options: { [key]: { text: map[key][0], color: map[key][1], index: std.parseInt(key) } for key in std.objectFields(map) },
  }],
  severities:: $.values({ '0': ['none', 'green'], '1': ['info', 'blue'], '2': ['warning', 'orange'], '3': ['critical', 'red'] }),
  severity_names:: [{
    type: 'value',
    options: {
      info: { color: 'blue', index: 0, text: 'info' },
      warning: { color: 'orange', index: 1, text: 'warning' },
      critical: { color: 'red', index: 2, text: 'critical' },
    },
  }],
  by_name(name, properties):: {
    matcher: { id: 'byName', options: name },
    properties: [{ id: key, value: properties[key] } for key in std.objectFields(properties)],
  },
  by_regexp(pattern, properties):: $.by_name(pattern, properties) + { matcher: { id: 'byRegexp', options: pattern } },
  fixed(color):: { mode: 'fixed', fixedColor: color },
  color_background:: { type: 'color-background', mode: 'basic' },

  // ---- panels -------------------------------------------------------------------------------------------------------
  panel(type, title, description, targets, unit='none'):: {
    type: type,
    title: title,
    description: description,
    datasource: if std.length(targets) > 0 then targets[0].datasource else prometheus,
    targets: std.mapWithIndex(function(i, target) target + { refId: std.char(65 + i) }, targets),
    fieldConfig: { defaults: { unit: unit, color: { mode: 'palette-classic' }, thresholds: $.thresholds([['green', null]]) }, overrides: [] },
    options: {},
  },

  series(title, description, targets, unit='none'):: $.panel('timeseries', title, description, targets, unit) + {
    fieldConfig+: { defaults+: { custom: {
      drawStyle: 'line',
      lineInterpolation: 'linear',
      lineWidth: 1,
      fillOpacity: 8,
      gradientMode: 'none',
      showPoints: 'never',
      pointSize: 5,
      spanNulls: false,
      axisPlacement: 'auto',
      scaleDistribution: { type: 'linear' },
      stacking: { mode: 'none', group: 'A' },
      thresholdsStyle: { mode: 'off' },
    } } },
    options: {
      legend: { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
  },
  custom(fields):: { fieldConfig+: { defaults+: { custom+: fields } } },
  defaults(fields):: { fieldConfig+: { defaults+: fields } },
  overrides(list):: { fieldConfig+: { overrides+: list } },
  log2:: $.custom({ scaleDistribution: { type: 'log', log: 2 } }),
  log10:: $.custom({ scaleDistribution: { type: 'log', log: 10 } }),
  from_zero:: $.defaults({ min: 0 }),
  stacked:: $.custom({ stacking: { mode: 'normal', group: 'A' }, fillOpacity: 40, lineWidth: 1 }),
  bars:: $.custom({ drawStyle: 'bars', fillOpacity: 80, lineWidth: 0, stacking: { mode: 'normal', group: 'A' } }),
  steps:: $.custom({ lineInterpolation: 'stepAfter' }),
  limits(thresholds):: $.defaults({ thresholds: thresholds }) + $.custom({ thresholdsStyle: { mode: 'dashed' } }),
  legend_table(calcs):: { options+: { legend+: { displayMode: 'table', placement: 'right', calcs: calcs } } },

  stat(title, description, targets, unit='none'):: $.panel('stat', title, description, targets, unit) + {
    fieldConfig+: { defaults+: { color: { mode: 'thresholds' }, noValue: '–' } },
    options: {
      colorMode: 'background',
      graphMode: 'none',
      justifyMode: 'auto',
      orientation: 'auto',
      percentChangeColorMode: 'standard',
      showPercentChange: false,
      textMode: 'auto',
      wideLayout: true,
      reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
    },
  },
  // A word from a label instead of a number.
  word(thresholds={}):: { options+: { textMode: 'name' } },

  grid(title, description, targets):: $.panel('table', title, description, targets) + {
    fieldConfig+: { defaults+: {
      color: { mode: 'thresholds' },
      custom: { align: 'auto', cellOptions: { type: 'auto' }, inspect: false, filterable: true },
    } },
    options: { showHeader: true, cellHeight: 'sm', frameIndex: 0, sortBy: [] },
  },
  sorted(columns):: { options+: { sortBy: [{ displayName: column, desc: true } for column in columns] } },
  // Rows of several queries become one; columns in this order under these names, others go. names: [[from, to], ...]
  columns(names, hidden=[]):: { transformations: [
    { id: 'merge', options: {} },
    { id: 'organize', options: {
      excludeByName: { [name]: true for name in ['Time'] + hidden },
      indexByName: { [names[i][0]]: i for i in std.range(0, std.length(names) - 1) },
      renameByName: { [name[0]]: name[1] for name in names },
    } },
  ] },

  // Tensors over time as coloured cells, in forward order.
  cells(title, description, targets, unit='none'):: $.panel('status-history', title, description, targets, unit) + {
    fieldConfig+: { defaults+: {
      color: { mode: 'thresholds' },
      displayName: '${__field.labels.row}',
      custom: { fillOpacity: 90, lineWidth: 0 },
    } },
    options: {
      rowHeight: 0.95,
      colWidth: 0.98,
      showValue: 'never',
      legend: { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] },
      tooltip: { mode: 'single', sort: 'none' },
    },
    maxDataPoints: 200,
  },

  heatmap(title, description, target, unit='s'):: $.panel('heatmap', title, description, [target]) + {
    fieldConfig: { defaults: { custom: { scaleDistribution: { type: 'linear' }, hideFrom: { legend: false, tooltip: false, viz: false } } }, overrides: [] },
    options: {
      calculate: false,
      cellGap: 1,
      cellValues: { unit: 'short' },
      color: { mode: 'scheme', scheme: 'Oranges', fill: 'dark-orange', exponent: 0.5, scale: 'exponential', steps: 64, reverse: false },
      exemplars: { color: 'rgba(255,0,255,0.7)' },
      filterValues: { le: 1e-9 },
      legend: { show: true },
      rowsFrame: { layout: 'auto' },
      showValue: 'never',
      tooltip: { mode: 'single', yHistogram: true, showColorScale: false },
      yAxis: { axisPlacement: 'left', reverse: false, unit: unit },
    },
    maxDataPoints: 120,
  },

  link(title, url):: { title: title, url: url, targetBlank: false },
  to_run:: $.link('Open the run', '/d/scalewatch-run/scalewatch-run?var-run=${__data.fields.Run:percentencode}&${datasource:queryparam}&${infinity:queryparam}&${__url_time_range}'),
  series_to_run:: $.link('Open ${__field.labels.run}', '/d/scalewatch-run/scalewatch-run?var-run=${__field.labels.run:percentencode}&${datasource:queryparam}&${infinity:queryparam}&${__url_time_range}'),
  to_runbook(field):: $.link('Runbook', '${runbooks}/${__data.fields.%s}.md' % field) + { targetBlank: true },

  // ---- variables ----------------------------------------------------------------------------------------------------
  local variable = { hide: 0, skipUrlSync: false },
  variables:: {
    datasource: variable + {
      name: 'datasource', label: 'Prometheus', type: 'datasource', query: 'prometheus', refresh: 1, multi: false, includeAll: false,
      description: 'The Prometheus that scrapes scalewatchd.', regex: '',
    },
    infinity: variable + {
      name: 'infinity', label: 'Scalewatch', type: 'datasource', query: 'yesoreyeram-infinity-datasource', refresh: 1, multi: false,
      includeAll: false, description: "An Infinity data source whose base URL is scalewatchd's HTTP address.", regex: '',
    },
    query(name, label, expr):: variable + {
      name: name, label: label, type: 'query', datasource: prometheus, definition:: expr,
      query: { qryType: 5, query: expr, refId: 'PrometheusVariableQueryEditor-VariableQuery' },
      refresh: 2, sort: 1, multi: false, includeAll: false, regex: '',
    },
    all:: { includeAll: true, multi: true, current: { selected: true, text: ['All'], value: ['$__all'] } },
    label: self.query('label', 'Label', 'label_names(scalewatch_run_labels)') + {
      regex: '/^label_(.*)$/', description: 'A label that users gave their runs.',
    },
    label_value: self.query('label_value', 'is', 'label_values(scalewatch_run_labels, label_$label)') + {
      includeAll: true, allValue: '.*', current: { selected: true, text: 'All', value: '$__all' },
      description: 'Only runs whose label has this value.',
    },
    run: self.query('run', 'Run', 'label_values(scalewatch_run_labels{%s}, run)' % run_filter),
    runs: self.run + self.all,
    scaler: self.query('scaler', 'Scaler', 'label_values(scalewatch_scaler_scale{run="$run"}, scaler)') + self.all,
    instance: self.query('instance', 'Server', 'label_values(scalewatch_build_info, instance)') + self.all,
    runbooks: variable + {
      name: 'runbooks', label: 'Runbooks', type: 'constant', query: 'https://runbooks.example.org/scalewatch', hide: 2, skipUrlSync: true,
      description: 'Where deploy/runbooks can be read; the same as alerting.runbook_url without its {rule}.md.',
    },
  },

  // ---- the page -----------------------------------------------------------------------------------------------------
  row(title):: { type: 'row', title: title, collapsed: false, panels: [], width:: 24, height:: 1 },
  at(width, height, panel):: panel + { width:: width, height:: height },

  // Left to right, and a new line where one is full; a row begins a new line too.
  local place(panels) = std.foldl(
    function(state, panel)
      local wraps = state.x + panel.width > 24 || panel.type == 'row';
      local x = if wraps then 0 else state.x;
      local y = if wraps then state.y + state.line else state.y;
      local line = if wraps then panel.height else std.max(state.line, panel.height);
      {
        x: x + panel.width,
        y: y,
        line: line,
        out: state.out + [panel + { id: std.length(state.out) + 1, gridPos: { x: x, y: y, w: panel.width, h: panel.height } }],
      },
    panels,
    { x: 0, y: 0, line: 0, out: [] }
  ).out,

  dashboard(uid, title, description, variables, panels, annotations=[], time='now-3h', refresh='30s'):: {
    uid: uid,
    title: title,
    description: description,
    tags: ['scalewatch'],
    schemaVersion: 42,
    version: 1,
    editable: true,
    graphTooltip: 1,
    fiscalYearStartMonth: 0,
    timezone: 'browser',
    time: { from: time, to: 'now' },
    refresh: refresh,
    links: [{
      type: 'dashboards', tags: ['scalewatch'], title: 'Scalewatch', asDropdown: false, includeVars: false, keepTime: true,
      icon: 'external link', targetBlank: false, tooltip: '', url: '',
    }],
    annotations: { list: [{
      builtIn: 1, datasource: { type: 'grafana', uid: '-- Grafana --' }, enable: true, hide: true,
      iconColor: 'rgba(0, 211, 255, 1)', name: 'Annotations & Alerts', type: 'dashboard',
    }] + annotations },
    templating: { list: variables },
    panels: place(panels),
  },

  // A line where a finding opened, from Prometheus. (Bars for as long as it is open would cover the graphs of a run that is lost.)
  finding_annotation(severity, color):: {
    name: 'Findings: ' + severity,
    datasource: prometheus,
    enable: true,
    hide: false,
    iconColor: color,
    expr: |||
      max by (rule, severity) (scalewatch_rule_findings_open{run="$run",severity="%(severity)s"}) > 0
        unless max by (rule, severity) (scalewatch_rule_findings_open{run="$run",severity="%(severity)s"} offset $__rate_interval) > 0
    ||| % { severity: severity },
    step: '15s',
    titleFormat: '{{rule}}',
    textFormat: '{{severity}}',
    tagKeys: 'rule,severity',
    useValueForTime: false,
  },
  // The same with what was found and what to do, from the JSON API.
  finding_table_annotation:: {
    name: 'Findings',
    datasource: infinity,
    enable: true,
    hide: false,
    iconColor: 'red',
    target: $.table('findings', [
      ['time', $.timestamp], ['title', 'string'], ['text', 'string'], ['tags', 'string'],
    ], format='dataframe') + { refId: 'Anno' },
  },
}
