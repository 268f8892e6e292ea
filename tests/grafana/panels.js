// One function a panel type: draws into an element.
const element = (tag, name, parent, text) => {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  parent?.appendChild(made);
  return made;
};
const nothing = (body, panel) => element('div', 'none', body, panel.fieldConfig.defaults.noValue || 'No data');
const last = values => values.reduce((found, value) => value ?? found, null);

function stat(body, panel, all) {
  const line = all[0];
  const config = configured(panel, line?.name);
  const box = element('div', 'stat', body);
  const value = line ? last(line.values) : null;
  const hit = mapped(value, config.mappings);
  box.textContent = value === null ? config.noValue || '–' : panel.options.textMode === 'name' ? line.name : hit?.text ?? format(value, config.unit, config.decimals);
  box.style.fontSize = `${Math.min(34, 180 / Math.max(4, box.textContent.length))}px`;
  box.style.background = value === null ? '' : color(config.color.mode === 'fixed' ? config.color.fixedColor : hit?.color ?? threshold(value, config.thresholds));
}

function table(body, panel, results) {
  const {columns, rows} = frame(panel, results);
  if (!rows.length) return nothing(body, panel);
  const configs = columns.map(name => configured(panel, name));
  const numeric = columns.map((_, i) => rows.some(row => typeof row[i] === 'number') && !configs[i].mappings && configs[i].unit !== 'dateTimeAsIso');
  const grid = element('table', '', body);
  const head = element('tr', '', grid);
  columns.forEach((name, i) => element('th', numeric[i] ? 'n' : '', head, name));
  for (const row of rows.slice(0, 60)) {
    const line = element('tr', '', grid);
    row.forEach((value, i) => {
      const config = configs[i], cell = element('td', numeric[i] ? 'n' : '', line), hit = mapped(value, config.mappings);
      const text = hit?.text ?? format(value, config.unit, config.decimals);
      if (config.links) element('a', '', cell, text); else cell.textContent = text;
      const style = config.custom.cellOptions?.type, known = value !== null && value !== undefined && value !== '';
      const paint = hit?.color ? color(hit.color) : known && typeof value === 'number' ? threshold(value, config.thresholds) : null;
      if (paint && style === 'color-background') { cell.style.background = paint; cell.style.color = '#111'; }
      if (paint && style === 'color-text') cell.style.color = paint;
      if (config.custom.width) cell.style.maxWidth = config.custom.width + 'px';
    });
  }
}

function bargauge(body, panel, all) {
  if (!all.length) return nothing(body, panel);
  for (const line of all) {
    const config = configured(panel, line.name), value = last(line.values);
    const bar = element('div', 'bar', body);
    element('div', 'name', bar, line.name);
    const fill = element('div', '', element('div', 'track', bar));
    fill.style.width = `${Math.max(1, Math.min(100, (value - config.min) / (config.max - config.min) * 100))}%`;
    fill.style.background = threshold(value, config.thresholds);
    element('div', 'value', bar, format(value, config.unit, config.decimals)).style.color = threshold(value, config.thresholds);
  }
}

const painter = (body, left, right, bottom) => {
  const canvas = element('canvas', '', body), ratio = 1;
  canvas.width = body.clientWidth; canvas.height = body.clientHeight;
  const pen = canvas.getContext('2d');
  pen.font = '10px sans-serif'; pen.textBaseline = 'middle';
  return {pen, x: left, y: 4, w: canvas.width - left - right, h: canvas.height - bottom - 4, ratio};
};
function clock(pen, area, start, end) {
  pen.fillStyle = '#9a9aab'; pen.textAlign = 'center';
  for (let i = 0; i <= 6; i++) {
    const time = start + (end - start) * i / 6;
    pen.fillText(new Date(time * 1000).toISOString().slice(11, 19), area.x + area.w * i / 6, area.y + area.h + 12);
  }
}

function statushistory(body, panel, all, page) {
  if (!all.length) return nothing(body, panel);
  const config = panel.fieldConfig.defaults;
  const times = [...new Set(all.flatMap(line => line.times))].sort((a, b) => a - b);
  const area = painter(body, 215, 28, 40), {pen} = area;
  const gaps = times.slice(1).map((time, i) => time - times[i]).sort((a, b) => a - b);
  const scale = area.w / (page.end - page.start);
  const wide = Math.max(2, (gaps[gaps.length >> 1] || 1) * scale), high = area.h / all.length;
  all.forEach((line, row) => {
    pen.fillStyle = '#ccccdc'; pen.textAlign = 'right';
    if (high > 7) pen.fillText(line.name.slice(-40), area.x - 5, area.y + (row + 0.5) * high);
    const at = new Map(line.times.map((time, i) => [time, line.values[i]]));
    times.forEach(time => {
      const value = at.get(time);
      if (value === undefined || value === null) return;
      pen.fillStyle = threshold(value, config.thresholds);
      pen.fillRect(area.x + (time - page.start) * scale, area.y + row * high, Math.max(1, wide * 0.98), Math.max(1, high * 0.95));
    });
  });
  clock(pen, area, page.start, page.end);
  let x = area.x;
  config.thresholds.steps.forEach((step, i) => {
    const next = config.thresholds.steps[i + 1];
    const text = step.value === null ? (next ? '< ' + format(next.value, config.unit) : 'all') : '≥ ' + format(step.value, config.unit);
    pen.fillStyle = color(step.color); pen.fillRect(x, area.y + area.h + 24, 12, 8);
    pen.fillStyle = '#b6b6c6'; pen.textAlign = 'left'; pen.fillText(text, x + 16, area.y + area.h + 28);
    x += 30 + pen.measureText(text).width;
  });
}

function heatmap(body, panel, all) {
  if (!all.length) return nothing(body, panel);
  const rows = all.map(line => ({...line, le: Number(line.labels.le.replace('+Inf', 'Infinity'))})).sort((a, b) => a.le - b.le);
  const times = [...new Set(rows.flatMap(line => line.times))].sort((a, b) => a - b);
  const area = painter(body, 62, 24, 24), {pen} = area;
  const wide = area.w / times.length, high = area.h / rows.length;
  const cells = rows.map((line, i) => {  // buckets are cumulative
    const own = new Map(line.times.map((time, k) => [time, line.values[k]]));
    const below = i > 0 ? new Map(rows[i - 1].times.map((time, k) => [time, rows[i - 1].values[k]])) : new Map();
    return times.map(time => Math.max(0, (own.get(time) ?? 0) - (below.get(time) ?? 0)));
  });
  const most = Math.max(...cells.flat());
  cells.forEach((cell, row) => {
    const y = area.y + area.h - (row + 1) * high;
    pen.fillStyle = '#9a9aab'; pen.textAlign = 'right';
    pen.fillText(Number.isFinite(rows[row].le) ? format(rows[row].le, panel.options.yAxis.unit) : '+Inf', area.x - 5, y + high / 2);
    cell.forEach((count, column) => {
      if (count <= panel.options.filterValues.le) return;
      const share = (count / most) ** panel.options.color.exponent;
      pen.fillStyle = `hsl(${38 - 22 * share} 95% ${22 + 46 * share}%)`;
      pen.fillRect(area.x + column * wide, y, Math.max(1, wide - 1), high - 1);
    });
  });
  clock(pen, area, times[0], times[times.length - 1]);
}

function legend(body, panel, shown) {
  const options = panel.options.legend;
  if (options.displayMode === 'table') {
    const box = element('div', 'legend side', body), grid = element('table', '', box), head = element('tr', '', grid);
    ['', ...options.calcs.map(calc => ({lastNotNull: 'Last', max: 'Max', min: 'Min'})[calc])].forEach(text => element('th', 'n', head, text));
    for (const {line, config, paint} of shown.slice(0, 12)) {
      const row = element('tr', '', grid), name = element('td', '', row);
      element('i', '', name).style.background = paint; name.append(line.name);
      const numbers = line.values.filter(value => value !== null);
      for (const calc of options.calcs) {
        const value = calc === 'lastNotNull' ? last(line.values) : numbers.length ? Math[calc](...numbers) : null;
        element('td', 'n', row, format(value, config.unit, config.decimals));
      }
    }
    return;
  }
  const box = element('div', 'legend', body);
  for (const {line, paint} of shown.slice(0, 24)) { element('i', '', box).style.background = paint; box.append(line.name); }
}

function timeseries(body, panel, all, page) {
  if (!all.some(line => line.values.some(value => value !== null))) return nothing(body, panel);
  const shown = all.map((line, i) => {
    const config = configured(panel, line.name);
    return {line, config, paint: color(config.color?.mode === 'fixed' ? config.color.fixedColor : PALETTE[i % PALETTE.length])};
  });
  const side = panel.options.legend.displayMode === 'table';
  const trend = panel.type === 'trend';
  const joined = uPlot.join(all.map(line => [line.times, line.values]));
  const data = [joined[0], ...joined.slice(1).map(values => values.map(value => value ?? null))];
  const stack = shown[0].config.custom.stacking?.mode === 'normal';
  if (stack) {
    for (let at = 0; at < data[0].length; at++) {
      let sum = 0;
      for (let i = 1; i < data.length; i++) if (data[i][at] !== null) data[i][at] = sum += data[i][at];
    }
  }
  const axes = [{stroke: '#9a9aab', grid: {stroke: '#25282f', width: 1}, size: 26, font: '10px sans-serif', space: 70}];
  if (trend) axes[0].values = (_, ticks) => ticks.map(tick => tick); else axes[0].values = (_, ticks) => ticks.map(tick => new Date(tick * 1000).toISOString().slice(11, 19));
  const scales = {x: {time: !trend, range: trend ? undefined : [page.start, page.end]}};
  const series = [{}];
  const wanted = {};
  shown.forEach(({config, paint}, i) => {
    const right = config.custom.axisPlacement === 'right', key = right ? 'right' : 'left', log = config.custom.scaleDistribution?.type === 'log';
    wanted[key] = wanted[key] || {unit: config.unit, log: log && config.custom.scaleDistribution.log, config, values: []};
    wanted[key].values.push(...data[i + 1].filter(value => value !== null));
    const style = config.custom.drawStyle, points = style === 'points';
    series.push({
      scale: key, stroke: paint, width: points || style === 'bars' ? 0 : 1.5, spanGaps: !!panel.targets[0].columns,
      fill: style === 'bars' || (stack && config.custom.fillOpacity) ? paint + (style === 'bars' ? 'cc' : '55') : config.custom.fillOpacity ? paint + '14' : undefined,
      dash: config.custom.lineStyle?.dash,
      paths: points ? () => null : style === 'bars' ? uPlot.paths.bars({size: [0.9, 40]}) : config.custom.lineInterpolation === 'stepAfter' ? uPlot.paths.stepped({align: 1}) : undefined,
      points: {show: points, size: config.custom.pointSize, fill: paint, stroke: paint},
    });
  });
  for (const [key, {unit, log, config, values}] of Object.entries(wanted)) {
    let low = Math.min(...values), high = Math.max(...values);
    if (log) { const ok = values.filter(value => value > 0); low = Math.min(...ok) / 2; high = Math.max(...ok) * 2; }
    else { low = config.min ?? Math.min(low, low > 0 && low < 0.3 * high ? 0 : low); high = config.max ?? (high > low ? high + (high - low) * 0.08 : low + 1); }
    scales[key] = {distr: log ? 3 : 1, log: log || 10, range: [low, high]};
    axes.push({
      scale: key, side: key === 'right' ? 1 : 3, stroke: '#9a9aab', size: 62, font: '10px sans-serif', grid: {show: key === 'left', stroke: '#25282f', width: 1},
      values: (_, ticks) => ticks.map(tick => tick === null ? '' : log === 2 && (tick < 1 || tick > 4096 || unit === 'sci') ? '2^' + Math.log2(tick) : format(tick, unit)),
      ...(unit === 'bytes' ? {incrs: Array.from({length: 50}, (_, i) => 2 ** i)} : {}),
      ...(log === 2 ? {splits: () => {
        const first = Math.ceil(Math.log2(low)), steps = Math.max(1, Math.ceil((Math.log2(high) - first) / 8));
        return Array.from({length: 9}, (_, i) => 2 ** (first + i * steps)).filter(tick => tick <= high);
      }, filter: (_, ticks) => ticks} : {}),
    });
  }
  if (stack) { const order = series.slice(1).map((_, i) => i + 1).reverse(); series.splice(1, order.length, ...order.map(i => series[i])); data.splice(1, order.length, ...order.map(i => data[i])); }
  const bands = stack ? series.slice(1, -1).map((_, i) => ({series: [i + 1, i + 2]})) : [];
  const steps = panel.fieldConfig.defaults.custom.thresholdsStyle?.mode === 'dashed' ? panel.fieldConfig.defaults.thresholds.steps : [];
  const rest = body.clientHeight - (side ? 0 : 36);
  new uPlot({
    width: side ? body.clientWidth * 0.66 : body.clientWidth, height: rest, scales, axes, series, bands, legend: {show: false}, cursor: {show: false},
    hooks: {draw: [plot => marks(plot, steps, trend ? [] : page.marks)]},
  }, data, body);
  legend(body, panel, shown);
}

// Limits as dashed lines; where findings opened as coloured lines with a foot.
function marks(plot, steps, found) {
  const {ctx, bbox} = plot;
  ctx.save();
  ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height + 5); ctx.clip();
  steps.forEach((step, i) => {
    const value = step.value;
    if (value === null || !plot.scales.left || value > plot.scales.left.max || value < plot.scales.left.min) return;
    const y = plot.valToPos(value, 'left', true);
    const lower = steps[i - 1];
    ctx.strokeStyle = color(lower && lower.value === null && lower.color !== 'green' ? lower.color : step.color === 'green' ? lower.color : step.color);
    ctx.setLineDash([6, 5]); ctx.beginPath(); ctx.moveTo(bbox.left, y); ctx.lineTo(bbox.left + bbox.width, y); ctx.stroke();
  });
  for (const mark of found) {
    const from = plot.valToPos(mark.from, 'x', true), to = plot.valToPos(mark.to ?? mark.from, 'x', true);
    ctx.strokeStyle = ctx.fillStyle = color(mark.color);
    ctx.setLineDash([2, 3]); ctx.globalAlpha = 0.8; ctx.beginPath(); ctx.moveTo(from, bbox.top); ctx.lineTo(from, bbox.top + bbox.height); ctx.stroke();
    ctx.globalAlpha = 1; ctx.fillRect(from - 1, bbox.top + bbox.height + 1, Math.max(4, to - from), 4);
  }
  ctx.restore();
}
