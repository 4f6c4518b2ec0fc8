// The page of `quern compare`: several runs side by side.
const COMPARED = [['reward', 'Mean reward', {low: 0}], ['ok', 'Kernels that are right', {low: 0, high: 1, format: percent}], ['age_mean', 'Mean staleness', {low: 0}],
  ['tokens_per_s', 'Tokens per second', {low: 0}], ['evaluations_per_h', 'Evaluations per hour', {low: 0}], ['learner.loss', 'Loss', {}], ['learner.entropy', 'Entropy', {}]];

// Curves of several runs over one axis: each run has points of its own.
function together(title, unit, curvesOf, more) {
  const x = [...new Set(curvesOf.flatMap(curve => curve.x))].sort((a, b) => a - b);
  const lines = curvesOf.filter(curve => curve.y.some(isNumber)).map(curve => {
    const at = new Map(curve.x.map((step, i) => [step, curve.y[i]])), y = x.map(step => at.has(step) ? at.get(step) : null);
    // Between two points of its own a curve goes on: other runs have points there.
    let before = -1;
    y.forEach((value, i) => {
      if (!isNumber(value)) return;
      for (let j = before + 1; before >= 0 && j < i; ++j) y[j] = y[before] + (value - y[before]) * (x[j] - x[before]) / (x[i] - x[before]);
      before = i;
    });
    return {name: curve.name, color: curve.color, y};
  });
  return lines.length ? chart({title, x, unit, lines, ...more}) : null;
}

function compareParts(page) {
  const unit = page.runs.every(run => run.curves.unit === page.runs[0].curves.unit) && page.runs.length ? page.runs[0].curves.unit : 'step';
  const color = i => i % 8;
  const charts = COMPARED.map(([name, title, more]) => together(title, unit, page.runs.map((run, i) => ({name: run.name, color: color(i), x: run.curves.x, y: run.curves.series[name] || []})), more));
  for (const [key, title] of [['median', 'Median speed-up of right kernels'], ['best', 'Best speed-up of a step']])
    charts.push(together(title, unit, page.runs.map((run, i) => ({name: run.name, color: color(i), x: run.speedups.x, y: run.speedups[key]})), {log: true, format: v => short(v) + ' x'}));
  const cell = i => ({title: page.runs[i].name, of: row => row.values[i], show: v => el('span', {}, v)});
  const columns = (first, show) => [{title: first, of: row => row.name, show}, ...page.runs.map((_, i) => cell(i))];
  return [el('h1', {}, `${page.runs.length} runs`), page.runs.flatMap(run => run.problems.map(text => el('div', {class: 'note problem'}, `${run.name}: ${text}`))),
    section('figures', 'Figures', table('figures', columns('figure'), page.figures)), section('curves', 'Curves', charts.some(Boolean) ? el('div', {class: 'charts'}, charts) : nothing('No step was made yet.')),
    section('settings', 'Configuration', page.settings.length ? [el('p', {class: 'faint small'}, 'Keys whose values differ.'), table('settings', columns('key', v => el('code', {}, v)), page.settings)] : nothing('All have the same configuration.'))];
}
const COMPARE_LINKS = [['figures', 'Figures'], ['curves', 'Curves'], ['settings', 'Configuration']];
