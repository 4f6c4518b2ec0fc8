// Elements and charts. Every text goes in as a text node: kernels, prompts and names are written by others.
const SVG = 'http://www.w3.org/2000/svg';

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === 'on') for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(9)) if (child !== null && child !== undefined) node.append(child);
  return node;
}
const el = (name, attributes, ...children) => put(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => put(document.createElementNS(SVG, name), attributes, children);

const isNumber = value => typeof value === 'number' && Number.isFinite(value);
function short(value) {
  if (!isNumber(value)) return '–';
  const size = Math.abs(value);
  if (size >= 1e6) return (value / 1e6).toPrecision(3) + ' M';
  if (size >= 1e4) return Math.round(value).toLocaleString('en');
  if (size >= 100 || Number.isInteger(value)) return String(Math.round(value * 10) / 10);
  if (size >= 0.01) return String(Number(value.toPrecision(3)));
  return value === 0 ? '0' : value.toExponential(1);
}
const percent = value => isNumber(value) ? Math.round(value * 1000) / 10 + ' %' : '–';
const times = value => isNumber(value) ? value.toFixed(2) + ' x' : '–';
const many = (count, unit) => short(count) + ' ' + unit + (count === 1 ? '' : 's');

// Ticks at 1, 2 or 5 times a power of ten.
function ticksOf(low, high, about) {
  const raw = (high - low) / about || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(n => n * power).find(s => s >= raw * 0.999);
  const ticks = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; ++n) ticks.push(Number((n * step).toPrecision(12)));
  return ticks;
}
function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); ++power)
    for (const n of [1, 2, 5]) if (n * 10 ** power >= low * 0.999 && n * 10 ** power <= high * 1.001) ticks.push(n * 10 ** power);
  if (ticks.length < 9) return ticks;
  const whole = ticks.filter(t => Math.abs(Math.log10(t) % 1) < 1e-9);
  return whole.length > 1 ? whole : ticks;
}

const hidden = new Set();  // 'chart/series' that a person has switched off; outlives a redraw

// spec: title, note, x, unit, lines [{name, y, color}], band {low, high, color}, stack [{name, y, color}], format, log, low, high, small
function chart(spec) {
  const parts = spec.stack || spec.lines;
  const shown = () => parts.filter(part => !hidden.has(spec.title + '/' + part.name));
  const holder = el('div', {}), readout = el('div', {class: 'readout'}, ' ');
  const draw = () => holder.replaceChildren(picture(spec, shown(), readout));
  const legend = parts.length < 2 ? null : el('div', {class: 'legend'}, parts.map(part => {
    const key = spec.title + '/' + part.name;
    const button = el('button', {type: 'button', 'aria-pressed': String(!hidden.has(key)), on: {click: () => {
      if (!hidden.delete(key)) hidden.add(key);
      button.setAttribute('aria-pressed', String(!hidden.has(key)));
      draw();
    }}}, svg('svg', {viewBox: '0 0 12 12', 'aria-hidden': 'true'}, svg('rect', {width: 12, height: 12, rx: 2, class: 'f' + part.color})), part.name);
    return button;
  }));
  draw();
  return el('figure', {'data-chart': spec.title}, el('figcaption', {}, spec.title, spec.note ? el('span', {}, spec.note) : null), holder, readout, legend);
}

function rangeOf(spec, parts) {
  let values = parts.flatMap(part => part.y);
  if (spec.band) values = values.concat(spec.band.low, spec.band.high);
  values = values.filter(v => isNumber(v) && (!spec.log || v > 0));
  if (spec.stack) return [0, 1];
  if (values.length === 0) return spec.log ? [0.5, 2] : [0, 1];
  let low = Math.min(...values), high = Math.max(...values);
  if (spec.log) return [Math.min(low * 0.9, 0.9), Math.max(high * 1.1, 1.1)];
  low = spec.low !== undefined ? Math.min(spec.low, low) : low;
  high = spec.high !== undefined ? Math.max(spec.high, high) : high;
  if (high === low) { high += Math.abs(high) * 0.1 || 1; if (low !== 0) low -= Math.abs(low) * 0.1; }
  const room = (high - low) * 0.05;
  return [low === 0 ? 0 : low - room, spec.high === high ? high : high + room];
}

function picture(spec, parts, readout) {
  const width = spec.small ? 300 : 520, height = spec.small ? 130 : 220, left = 46, right = 10, top = 8, bottom = 24;
  const x = spec.x, first = x[0], last = x[x.length - 1], format = spec.format || short;
  const [low, high] = rangeOf(spec, parts);
  const toX = v => last === first ? (left + width - right) / 2 : left + (v - first) / (last - first) * (width - left - right);
  const share = v => spec.log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low);
  const toY = v => height - bottom - share(v) * (height - top - bottom);
  const drawable = v => isNumber(v) && (!spec.log || v > 0);
  const image = svg('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': spec.title});
  for (const tick of spec.log ? logTicks(low, high) : ticksOf(low, high, spec.small ? 3 : 5))
    image.append(svg('line', {class: 'gridline', x1: left, x2: width - right, y1: toY(tick), y2: toY(tick)}),
                 svg('text', {class: 'axis', x: left - 6, y: toY(tick) + 4, 'text-anchor': 'end'}, format(tick)));
  for (const tick of ticksOf(first, last, spec.small ? 3 : 6).filter(Number.isInteger))
    image.append(svg('text', {class: 'axis', x: toX(tick), y: height - 8, 'text-anchor': 'middle'}, short(tick)));
  image.append(svg('text', {class: 'axis', x: 2, y: height - 8}, spec.unit === 'evaluation' ? 'eval.' : spec.unit || 'step'));
  const runs = y => {  // stretches without a gap
    const found = [];
    y.forEach((v, i) => { if (!drawable(v)) return; if (i && drawable(y[i - 1]) && found.length) found.at(-1).push(i); else found.push([i]); });
    return found;
  };
  const between = (lower, upper, look) => runs(upper.map((v, i) => drawable(v) && drawable(lower[i]) ? v : null)).forEach(run => {
    const half = run.length === 1 ? 3 : 0;
    const go = (i, y, shift) => `${(toX(x[i]) + shift).toFixed(1)},${toY(y[i]).toFixed(1)}`;
    image.append(svg('polygon', {class: look, points: [...run.map(i => go(i, upper, half)), ...run.slice().reverse().map(i => go(i, lower, -half))].join(' ')
      + (half ? ` ${go(run[0], upper, -half)}` : '')}));
  });
  if (spec.band) between(spec.band.low, spec.band.high, 'band f' + spec.band.color);
  if (spec.stack) {
    let under = x.map(() => 0);
    for (const part of parts) {
      const over = under.map((v, i) => v + (part.y[i] || 0));
      between(under, over, 'area f' + part.color);
      under = over;
    }
  } else for (const part of parts) runs(part.y).forEach(run => {
    const points = run.map(i => `${toX(x[i]).toFixed(1)},${toY(part.y[i]).toFixed(1)}`);
    image.append(run.length > 1 ? svg('polyline', {class: 'line s' + part.color, points: points.join(' ')})
                                : svg('circle', {class: 'f' + part.color, r: 2.5, cx: toX(x[run[0]]), cy: toY(part.y[run[0]])}));
  });
  const cross = svg('line', {class: 'cross', y1: top, y2: height - bottom, visibility: 'hidden'});
  image.append(cross, svg('rect', {class: 'catch', x: left, y: top, width: width - left - right, height: height - top - bottom}));
  image.addEventListener('pointermove', event => {
    const box = image.getBoundingClientRect(), at = (event.clientX - box.left) / box.width * width;
    let near = 0;
    x.forEach((v, i) => { if (Math.abs(toX(v) - at) < Math.abs(toX(x[near]) - at)) near = i; });
    cross.setAttribute('x1', toX(x[near])); cross.setAttribute('x2', toX(x[near])); cross.setAttribute('visibility', 'visible');
    readout.textContent = `${spec.unit || 'step'} ${x[near]}: ` + parts.map(part => `${part.name} ${format(part.y[near])}`).join(', ');
  });
  image.addEventListener('pointerleave', () => { cross.setAttribute('visibility', 'hidden'); readout.textContent = ' '; });
  return image;
}

const sorted = new Map();  // what a person sorts a table by; outlives a redraw
const unfolded = new Set();

// columns: [{title, of: row => value, show: value, row => text or node, number}]; `limit` rows, and a button for all.
function table(name, columns, rows, limit) {
  const body = el('tbody', {}), more = el('button', {class: 'more', type: 'button', on: {click: () => { unfolded.add(name); fill(); }}});
  const heads = columns.map((column, i) => el('th', {class: column.number ? 'number' : null, scope: 'col'},
    el('button', {type: 'button', on: {click: () => {
      const [at, down] = sorted.get(name) || [-1, false];
      sorted.set(name, [i, at === i ? !down : Boolean(column.number)]);
      fill();
    }}}, column.title)));
  function fill() {
    const order = sorted.get(name), list = rows.slice();
    if (order) {
      const of = columns[order[0]].of, down = order[1] ? -1 : 1;
      list.sort((a, b) => {
        const one = of(a), two = of(b);
        if (one === null || two === null) return (one === null) - (two === null);
        return down * (one < two ? -1 : one > two ? 1 : 0);
      });
    }
    heads.forEach((head, i) => head.setAttribute('aria-sort', !order || order[0] !== i ? 'none' : order[1] ? 'descending' : 'ascending'));
    const open = !limit || unfolded.has(name);
    body.replaceChildren(...(open ? list : list.slice(0, limit)).map(row => el('tr', {}, columns.map(column =>
      el('td', {class: column.number ? 'number' : 'break'}, column.show ? column.show(column.of(row), row) : String(column.of(row) ?? '–'))))));
    more.textContent = `show all ${rows.length}`;
    more.hidden = open || rows.length <= limit;
  }
  fill();
  return el('div', {class: 'wide', 'data-table': name}, el('table', {}, el('thead', {}, el('tr', {}, heads)), body), more);
}
