// Lays a dashboard out on Grafana's grid of 24 columns and draws its panels.
function annotations(page) {
  const out = [];
  for (const annotation of page.annotations) {
    for (const row of annotation.rows || []) out.push({from: row.time / 1000, color: /critical/.test(row.tags) ? 'red' : /warning/.test(row.tags) ? 'orange' : 'blue'});
    for (const series of annotation.result || []) {  // neighbouring samples are one region
      let from = null, before = null;
      for (const [time] of [...series.values, [Infinity]]) {
        if (before !== null && time - before > 1.5) { out.push({from, to: before, color: annotation.iconColor}); from = null; }
        from = from ?? time; before = time;
      }
    }
  }
  return out.filter(mark => mark.from <= page.end);
}

function draw(page) {
  const unit = 60, high = 38, top = 50, left = 20;
  page.marks = annotations(page);
  const head = element('header', '', document.body, page.dashboard.title);
  const chosen = Object.entries(page.values).filter(([name]) => !['runbooks', 'label'].includes(name)).map(([name, value]) => `${name} = ${Array.isArray(value) ? value.join(', ') : value}`);
  element('small', '', head, chosen.join('   '));
  for (const panel of page.dashboard.panels) {
    const {x, y, w, h} = panel.gridPos;
    const title = words(panel.title, {}, page.values);
    const box = element('div', panel.type === 'row' ? 'row' : 'panel', document.body, panel.type === 'row' ? title : undefined);
    Object.assign(box.style, {left: `${left + x * unit + 3}px`, top: `${top + y * high + 3}px`, width: `${w * unit - 6}px`, height: `${h * high - 6}px`});
    if (panel.type === 'row') continue;
    const name = element('h3', '', box, title);
    const body = element('div', 'body', box);
    const results = page.results[panel.id] || {};
    try {
      switch (panel.type) {
        case 'table': table(body, panel, results); break;
        case 'stat': name.style.position = 'relative'; name.style.zIndex = 1; stat(body, panel, lines(panel, results, page.values)); break;
        case 'bargauge': bargauge(body, panel, lines(panel, results, page.values)); break;
        case 'heatmap': heatmap(body, panel, lines(panel, results, page.values)); break;
        case 'status-history': statushistory(body, panel, lines(panel, results, page.values), page); break;
        default: timeseries(body, panel, lines(panel, results, page.values), page);
      }
    } catch (error) {
      element('div', 'none', body, `cannot draw: ${error.message}`);
    }
  }
}
