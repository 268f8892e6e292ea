// The numbers of one run, tensor by tensor. What Prometheus should not hold, a series for every layer, comes from scalewatchd's JSON API.
local s = import 'lib.libsonnet';
local v = s.variables;
local run = 'run="$run"';
local roles = ['gradient', 'activation', 'activation_gradient', 'parameter', 'optimizer_state', 'buffer'];

local history(columns) = s.table('tensors/${tensor:percentencode}/history', [['time', s.timestamp]] + columns, { role: '${role}', max_points: 500 }, 'timeseries');
local heat(by) = s.table('heatmap', [['time', s.timestamp], ['row', 'string'], ['value', 'number']],
                         { by: by, role: '${role}', max_tensors: 40, max_columns: 60 }, 'timeseries');
local share_steps = s.thresholds([['semi-dark-green', null], ['yellow', 0.05], ['orange', 0.2], ['red', 0.5]]);

s.dashboard(
  'scalewatch-numerics',
  'Scalewatch / Numerics',
  'Headroom and underflow of one run, by role, by tensor and over attempts. Needs the Infinity data source for all that is by tensor.',
  [
    v.datasource, v.infinity, v.label, v.label_value, v.run,
    {
      name: 'role', label: 'Role', type: 'custom', hide: 0, skipUrlSync: false, multi: false, includeAll: false,
      query: std.join(',', roles), current: { selected: true, text: roles[0], value: roles[0] },
      options: [{ selected: role == roles[0], text: role, value: role } for role in roles],
      description: 'What the tensors are.',
    },
    {
      name: 'tensor', label: 'Tensor', type: 'query', hide: 0, skipUrlSync: false, multi: false, includeAll: false, datasource: s.infinity,
      query: {
        queryType: 'infinity', query: '', refId: 'variable',
        infinityQuery: s.table('tensors', [['tensor', 'string']], { role: '${role}', page_size: 1000 }) + {
          refId: 'variable',
          url_options+: { params: [{ key: 'role', value: '${role}' }, { key: 'page_size', value: '1000' }] },
        },
      },
      refresh: 2, sort: 0, regex: '', description: 'A tensor of the role, in forward order.',
    },
    v.runbooks,
  ],
  [
    s.row('By role'),
    s.at(8, 8, s.series('Least headroom', 'Octaves between the largest magnitude of any tensor of the role and the largest value of its format, as stored. Gradients are under the loss scale. Under 2 a finding opens.', [
                 s.query('min by (role) (scalewatch_headroom_octaves{%s})' % run, '{{role}}'),
               ])
               + s.limits(s.low_is_bad(1, 2))),
    s.at(8, 8, s.series('Underflow', "Share of the role's non-zero elements that the computation's format holds only as subnormals, or not at all.", [
                 s.query('max by (role) (scalewatch_underflow_ratio{%s})' % run, '{{role}}'),
               ], 'percentunit')
               + s.from_zero),
    s.at(8, 8, s.series('Underflow of the worst tensor', 'The same share of the one tensor of the role for which it is largest.', [
                 s.query('max by (role) (scalewatch_worst_underflow_ratio{%s})' % run, '{{role}}'),
               ], 'percentunit')
               + s.from_zero + s.limits(s.high_is_bad(0.5, 0.9))),
    s.at(12, 7, s.series('Attempts with non-finite values', 'Attempts of the interval at which some rank had NaN or Inf in a tensor of the role, or a non-finite loss.', [
                  s.query('sum by (role) (increase(scalewatch_non_finite_attempts_total{%s}[$__rate_interval]))' % run, '{{role}}'),
                ])
                + s.bars + s.from_zero + s.defaults({ noValue: 'None' })),
    s.at(12, 7, s.series('Non-finite elements', 'NaN and Inf elements a second that ranks reported, by role.', [
                  s.query('sum by (role) (rate(scalewatch_non_finite_elements_total{%s}[$__rate_interval]))' % run, '{{role}}'),
                ], 'short')
                + s.from_zero + s.defaults({ noValue: 'None' })),

    s.row('By tensor, over attempts: role $role'),
    s.at(24, 12, s.cells('Headroom', 'One line a tensor, in forward order; a cell is the least headroom of its attempts. Red: under one octave left. The 40 tensors with the least are shown.', [heat('headroom')])
                 + s.defaults({ decimals: 1, thresholds: s.thresholds([['red', null], ['orange', 1], ['yellow', 2], ['semi-dark-green', 4], ['dark-green', 8]]) })),
    s.at(12, 12, s.cells('Underflow', 'Share of the non-zero elements that are subnormal in the format, the largest of a cell. For gradients a larger loss scale helps, until headroom is gone.', [heat('underflow')], 'percentunit')
                 + s.defaults({ decimals: 1, thresholds: share_steps })),
    s.at(12, 12, s.cells('NaN and Inf', 'Non-finite elements, the sum of a cell. The first column with any colour shows where it began.', [heat('non_finite')])
                 + s.defaults({ thresholds: s.thresholds([['rgba(115, 191, 105, 0.25)', null], ['orange', 1], ['red', 1000]]) })),

    s.row('One tensor: $tensor ($role)'),
    s.at(12, 9, s.series('Magnitudes', 'Largest and smallest non-zero magnitude and the norm, without the loss scale, on a log2 axis. The distance between the lines is the range that the format must hold.', [
                  history([['absmax', 'number'], ['absmin_nonzero', 'number'], ['norm', 'number']]),
                ])
                + s.log2 + s.defaults({ unit: 'sci' })),
    s.at(12, 9, s.series('Headroom', 'Least headroom of the attempts of a point, in octaves.', [history([['headroom', 'number']])])
                + s.limits(s.low_is_bad(1, 2))),
    s.at(12, 8, s.series('What the format loses', 'Shares of elements: zero among all, subnormal and flushed to zero among the non-zero.', [
                  history([['zero_share', 'number'], ['subnormal_share', 'number'], ['flushed_share', 'number']]),
                ], 'percentunit')
                + s.from_zero),
    s.at(12, 8, s.series('NaN, Inf and over', 'Elements that are NaN or Inf, or finite and rounding to non-finite in the format.', [
                  history([['nan', 'number'], ['inf', 'number'], ['over', 'number']]),
                ])
                + s.bars + s.from_zero),

    s.row('Scaler and worst tensors'),
    s.at(12, 10, s.panel('trend', 'Loss scale over attempts', 'The scale at every attempt, not only at every scrape; red where an attempt was skipped. The axis below is the attempt.', [
                   s.table('scaler', [['attempt', 'number'], ['scale', 'number'], ['skip_mark', 'number', 'skipped']], { max_points: 1000 }),
                 ])
                 + s.custom({ drawStyle: 'line', lineInterpolation: 'stepAfter', lineWidth: 1, fillOpacity: 8, showPoints: 'never', pointSize: 5, scaleDistribution: { type: 'log', log: 2 } })
                 + s.overrides([s.by_name('skipped', { 'custom.drawStyle': 'points', 'custom.showPoints': 'always', 'custom.pointSize': 6, color: s.fixed('red') })])
                 + { options: { xField: 'attempt', legend: { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] }, tooltip: { mode: 'multi', sort: 'none' } } }),
    s.at(12, 10, s.grid('Tensors nearest to overflow', 'The tensors of the role with the least headroom in the chosen time, and at which attempt.', [
                   s.table('top', [
                     ['tensor', 'string', 'Tensor'], ['value', 'number', 'Headroom'], ['attempt', 'number', 'Attempt'], ['time', s.timestamp, 'When'],
                     ['absmax', 'number', 'Largest'], ['subnormal_share', 'number', 'Subnormal'], ['nan', 'number', 'NaN'], ['inf', 'number', 'Inf'],
                   ], { by: 'headroom', role: '${role}', limit: 20 }),
                 ])
                 + s.overrides([
                   s.by_name('Headroom', { decimals: 2, thresholds: s.low_is_bad(1, 2), 'custom.cellOptions': s.color_background }),
                   s.by_name('When', { unit: 'dateTimeAsIso' }),
                   s.by_name('Largest', { unit: 'sci' }),
                   s.by_name('Subnormal', { unit: 'percentunit', decimals: 1 }),
                   s.by_name('Tensor', { links: [s.link('History', '/d/scalewatch-numerics/scalewatch-numerics?var-run=${run:percentencode}&var-tensor=${__data.fields.Tensor:percentencode}&var-role=${role}&${datasource:queryparam}&${infinity:queryparam}&${__url_time_range}')] }),
                 ])),
  ],
  annotations=[s.finding_table_annotation],
  time='now-1h',
)
