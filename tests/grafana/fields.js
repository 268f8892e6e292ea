// From answers to named fields, as Grafana's frames have them: units, mappings, thresholds, overrides, colours.
const PALETTE = ['#73BF69', '#F2CC0C', '#8AB8FF', '#FF780A', '#F2495C', '#5794F2', '#B877D9', '#705DA0', '#37872D', '#FADE2A', '#447EBC', '#C15C17'];
const COLORS = {
  green: '#73BF69', 'dark-green': '#37872D', 'semi-dark-green': '#56A64B', red: '#F2495C', orange: '#FF9830', yellow: '#FADE2A', blue: '#5794F2',
  text: '#ccccdc',
};
const color = name => COLORS[name] || name;

const SHORT = ['', ' K', ' Mil', ' Bil', ' Tri'];
function scaled(value, base, names, digits) {
  let at = 0;
  while (Math.abs(value) >= base && at + 1 < names.length) { value /= base; at++; }
  return trim(value, digits) + names[at];
}
function trim(value, digits) {
  if (digits !== undefined) return value.toFixed(digits);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(2);
  return String(+value.toPrecision(size >= 100 ? 6 : 3));
}
function format(value, unit, digits) {
  if (value === null || value === undefined || value === '') return '';
  if (typeof value === 'string') return value;
  if (Number.isNaN(value)) return 'NaN';
  switch (unit) {
    case 'percentunit': return trim(value * 100, digits) + '%';
    case 's':
      if (value === 0) return '0 s';
      if (Math.abs(value) < 1e-3) return trim(value * 1e6, digits ?? 1) + ' µs';
      if (Math.abs(value) < 1) return trim(value * 1e3, digits && 1) + ' ms';
      return Math.abs(value) < 120 ? trim(value, digits) + ' s' : trim(value / 60, digits ?? 1) + ' min';
    case 'ms': return trim(value, digits) + ' ms';
    case 'bytes': return scaled(value, 1024, [' B', ' KiB', ' MiB', ' GiB', ' TiB'], digits ?? 1);
    case 'ops': return scaled(value, 1000, [' ops/s', 'K ops/s', 'M ops/s'], digits);
    case 'short': return scaled(value, 1000, SHORT, digits);
    case 'sci': return value === 0 ? '0' : value.toExponential(digits ?? 1);
    case 'dateTimeAsIso': return new Date(value).toISOString().slice(0, 19).replace('T', ' ');
    default: return trim(value, digits);
  }
}

function mapped(value, mappings) {
  for (const mapping of mappings || []) if (mapping.type === 'value' && mapping.options[value]) return mapping.options[value];
  return null;
}
function threshold(value, thresholds) {
  let found = thresholds.steps[0].color;
  for (const step of thresholds.steps) if (step.value !== null && value >= step.value) found = step.color;
  return color(found);
}

// A field's configuration: the defaults with the overrides that match its name.
function configured(panel, name) {
  const config = structuredClone(panel.fieldConfig.defaults);
  config.custom = config.custom || {};
  for (const override of panel.fieldConfig.overrides) {
    const {id, options} = override.matcher;
    const hit = id === 'byName' ? options === name : new RegExp(options.replace(/^\/|\/$/g, '')).test(name);
    if (!hit) continue;
    for (const {id: key, value} of override.properties) {
      if (key.startsWith('custom.')) config.custom[key.slice(7)] = value; else config[key] = value;
    }
  }
  return config;
}
function words(text, labels, values) {
  return text.replace(/\$\{__field\.labels\.(\w+)\}/g, (_, key) => labels[key] ?? '')
    .replace(/\{\{(\w+)\}\}/g, (_, key) => labels[key] ?? '')
    .replace(/\$(\w+)|\$\{(\w+)\}/g, (all, a, b) => values[a ?? b] ?? all);
}
function label(legend, metric, values) {
  const pairs = Object.entries(metric).filter(([key]) => key !== '__name__');
  return legend === '__auto' ? pairs.map(([, value]) => value).join(' ') || 'Value' : words(legend, metric, values);
}

// All lines of a panel: {name, labels, times (s), values}.
function lines(panel, results, values) {
  const out = [];
  for (const target of panel.targets) {
    const result = results[target.refId];
    if (!result) continue;
    if (result.kind === 'rows') out.push(...wide(panel, target, result.result));
    for (const series of result.kind === 'rows' ? [] : result.result) {
      const samples = series.values || [series.value];
      const times = [], numbers = [];
      samples.forEach(([time, text], i) => {
        if (i > 0 && result.step && time - samples[i - 1][0] > 1.5 * result.step) { times.push(time - result.step); numbers.push(null); }
        times.push(time);
        numbers.push(/^[+-]?Inf$|NaN/.test(text) ? null : Number(text));
      });
      out.push({name: label(result.legend, series.metric, values), labels: series.metric, times, values: numbers});
    }
  }
  return out;
}
// Rows as the Infinity plugin turns them into a wide frame: a line for each number column and each combination of its words.
function wide(panel, target, rows) {
  const time = target.columns.find(column => column.type.startsWith('timestamp'));
  const numbers = target.columns.filter(column => column.type === 'number' && column.text !== panel.options.xField);
  const texts = target.columns.filter(column => column.type === 'string');
  const found = new Map();
  for (const row of rows) {
    const labels = Object.fromEntries(texts.map(column => [column.text, row[column.selector]]));
    for (const column of numbers) {
      const name = panel.fieldConfig.defaults.displayName ? words(panel.fieldConfig.defaults.displayName, labels, {}) : column.text;
      const key = name + JSON.stringify(labels);
      if (!found.has(key)) found.set(key, {name, labels, times: [], values: []});
      const line = found.get(key);
      line.times.push(time ? row[time.selector] / 1000 : row[target.columns[0].selector]);
      line.values.push(row[column.selector]);
    }
  }
  return [...found.values()].sort((a, b) => texts.length ? (a.name < b.name ? -1 : 1) : 0);
}

// A table's columns in order, and its rows: merge and organize of the dashboard applied.
function frame(panel, results) {
  const names = [];
  let rows = [];
  const seen = name => { if (!names.includes(name)) names.push(name); };
  for (const target of panel.targets) {
    const result = results[target.refId];
    if (!result) continue;
    if (result.kind === 'rows') {
      target.columns.forEach(column => seen(column.text));
      rows.push(...result.result.map(row => Object.fromEntries(target.columns.map(column => [column.text, row[column.selector]]))));
      continue;
    }
    const value = panel.targets.length > 1 ? `Value #${target.refId}` : 'Value';
    for (const {metric, value: [time, text]} of result.result) {
      const {__name__, ...labels} = metric;
      const row = {Time: time * 1000, ...labels, [value]: text === 'NaN' ? NaN : Number(text)};
      Object.keys(row).forEach(seen);
      // Merge: into a row that agrees in all that both have.
      const into = panel.transformations?.some(t => t.id === 'merge')
        ? rows.find(other => Object.keys(row).every(key => !(key in other) || other[key] === row[key])) : null;
      if (into) Object.assign(into, row); else rows.push(row);
    }
  }
  const organize = panel.transformations?.find(t => t.id === 'organize')?.options || {excludeByName: {}, indexByName: {}, renameByName: {}};
  const at = name => organize.indexByName[name] ?? 1000;
  const kept = names.filter(name => !organize.excludeByName[name]).sort((a, b) => at(a) - at(b));
  const columns = kept.map(name => organize.renameByName[name] || name);
  let table = rows.map(row => kept.map(name => row[name]));
  for (const {displayName, desc} of (panel.options.sortBy || []).slice().reverse()) {
    const i = columns.indexOf(displayName);
    if (i >= 0) table = table.sort((a, b) => ((a[i] ?? -1) < (b[i] ?? -1) ? -1 : (a[i] ?? -1) > (b[i] ?? -1) ? 1 : 0) * (desc ? -1 : 1));
  }
  return {columns, rows: table};
}
