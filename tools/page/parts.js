// The parts of the page of a run.
const ROLES = [['generator', 'Generator'], ['learner', 'Learner'], ['evaluator', 'Evaluators'], ['control', 'Control']];
const DROPPED = {
  noisy: 'every measurement was too uneven', infra_error: 'evaluators could not judge it', invalid_reference: "the task's reference failed",
  unconfirmed: 'a second measurement did not confirm the first', unsupported: 'no host of this device class can run it',
  group_too_small: 'fewer than two samples of its group were left', stale: 'too old for the step that would have used it',
  non_finite: 'the gradient of its batch was not finite', no_learner: 'judged; stage search trains nothing',
  group_mostly_lost: 'more than half of its group was lost to evaluators', prompt_lost: 'the prompt of its group could not be read',
  stopped: 'the run was ended by quern stop, or had made all its steps'};
const LEARNER = [['learner.loss', 'Loss'], ['learner.entropy', 'Entropy'], ['learner.grad_norm', 'Gradient norm'], ['learner.behaviour_kl', 'KL to the sampling policy'],
  ['learner.clip_fraction', 'Share of clipped tokens'], ['learner.learning_rate', 'Learning rate']];
const RATES = [['tokens_per_s', 'Tokens per second'], ['evaluations_per_h', 'Evaluations per hour'], ['in_flight', 'Samples in flight']];

const opened = new Set();  // folded parts that a person has opened; outlives a redraw
function folding(key, summary, fill) {
  const inside = el('div', {});
  const part = el('details', {'data-key': key, open: opened.has(key), on: {toggle: () => {
    if (part.open) opened.add(key); else opened.delete(key);
    if (part.open && !inside.hasChildNodes()) inside.append(...fill());
  }}}, el('summary', {}, summary), inside);
  if (part.open) inside.append(...fill());
  return part;
}
const section = (id, title, ...children) => el('section', {id}, el('h2', {}, title), children);
const nothing = text => el('p', {class: 'faint'}, text);
const sum = counts => Object.values(counts).reduce((a, b) => a + b, 0);

function head(page) {
  const {run, progress} = page, share = progress.wanted > 0 ? Math.min(1, progress.done / progress.wanted) : 0;
  const begun = run.created_ns ? new Date(run.created_ns / 1e6).toISOString().slice(0, 16).replace('T', ' ') + ' UTC' : '';
  const words = {running: 'running', complete: 'complete', paused: 'not running'};
  return [
    el('h1', {}, run.name, el('span', {class: 'pill ' + run.state}, words[run.state])),
    el('p', {class: 'faint small'}, [`stage ${run.stage}`, run.lane ? `lane ${run.lane}` : '', begun ? `begun ${begun}` : '', run.machine ? `on ${run.machine}` : '', run.build ? `build ${run.build}` : '',
      run.seed !== null ? `seed ${run.seed}` : ''].filter(Boolean).join(' · ')),
    el('p', {class: 'faint small mono'}, run.folder),
    svg('svg', {class: 'bar', viewBox: '0 0 100 1', preserveAspectRatio: 'none', role: 'img', 'aria-label': percent(share) + ' of the run'},
      svg('rect', {class: 'rest', width: 100, height: 1}), svg('rect', {class: 'made', width: share * 100, height: 1})),
    run.state === 'paused' ? el('p', {class: 'small'}, 'No process works on this run now. ', el('code', {}, 'quern resume ' + run.folder), ' goes on.') : null];
}

function tiles(page) {
  const {progress, samples, verdicts} = page, states = samples.states, judged = sum(verdicts);
  const flight = ['issued', 'generated', 'evaluated', 'admitted', 'consumed'].reduce((all, state) => all + (states[state] || 0), 0);
  const best = page.kernels.length ? page.kernels[0].speedup_e2 / 100 : null;
  const list = [[`${short(progress.done)} of ${short(progress.wanted)}`, progress.unit + 's'],
    [judged ? percent((verdicts.ok || 0) / judged) : '–', 'of the kernels are right'], [times(best), 'best speed-up'],
    [short(samples.issued), 'samples issued'], [short(states.trained || 0), 'trained'], [short(states.dropped || 0), 'dropped'], [short(flight), 'in flight']];
  if (progress.checkpoint >= 0) list.push([short(progress.checkpoint), 'version of the last checkpoint']);
  return el('div', {class: 'tiles'}, list.map(([value, what]) => el('div', {class: 'tile'}, el('b', {}, value), el('span', {}, what))));
}

const notes = page => [
  ...page.problems.map(text => el('div', {class: 'note problem'}, 'Not everything could be read. ' + text)),
  ...page.warnings.map(text => el('div', {class: 'note warning'}, 'Warning: ' + text)),
  page.held_back ? el('div', {class: 'note'}, 'In its last minutes: ' + page.held_back) : null];

// Counts at each point as shares; the rarest names are one.
function mixOf(counts) {
  const names = Object.keys(counts).sort((a, b) => (b === 'ok') - (a === 'ok') || sumOf(counts[b]) - sumOf(counts[a]));
  function sumOf(list) { return list.reduce((a, b) => a + b, 0); }
  const points = names.length ? counts[names[0]].length : 0, total = [...Array(points).keys()].map(i => names.reduce((all, name) => all + counts[name][i], 0));
  const share = list => list.map((n, i) => total[i] ? n / total[i] : null);
  const kept = names.length > 7 ? names.slice(0, 6) : names, rest = names.slice(kept.length);
  const colors = [1, 4, 3, 0, 6, 5];
  const parts = kept.map((name, i) => ({name: name.replaceAll('_', ' '), y: share(counts[name]), color: name === 'ok' ? 2 : colors[(i - (kept[0] === 'ok')) % 6]}));
  if (rest.length) parts.push({name: 'others', y: share(total.map((_, i) => rest.reduce((all, name) => all + counts[name][i], 0))), color: 7});
  return parts;
}

function curves(page) {
  const {x, series, verdicts, per_point: width, unit} = page.curves, s = page.speedups, list = [];
  const has = name => series[name] && series[name].some(isNumber);
  const mean = width > 1 ? `each point is the mean of ${width} ${unit}s` : '';
  const line = (title, name, more) => has(name) && list.push(chart({title, note: mean, x, unit, lines: [{name: title.toLowerCase(), y: series[name], color: 0}], ...more}));
  line('Mean reward', 'reward', {low: 0});
  line('Kernels that are right', 'ok', {low: 0, high: 1, format: percent});
  if (s.x.length) list.push(chart({title: 'Speed-up of right kernels', note: 'that a step was trained on; band from the 10 % to the 90 % quantile', x: s.x, unit, log: true, format: v => short(v) + ' x',
    band: {low: s.low, high: s.high, color: 0}, lines: [{name: 'median', y: s.median, color: 0}, {name: 'best', y: s.best, color: 1}]}));
  if (Object.keys(verdicts).length) list.push(chart({title: 'Verdicts', note: 'share of the samples of a ' + unit, x, unit, format: percent, stack: mixOf(verdicts)}));
  if (has('age_mean')) list.push(chart({title: 'Staleness', note: 'steps behind when used', x, unit, low: 0,
    lines: [{name: 'oldest sample', y: series.age_largest || [], color: 1}, {name: 'mean', y: series.age_mean, color: 0}]}));
  const small = (title, name) => has(name) ? chart({title, x, unit, small: true, lines: [{name: title.toLowerCase(), y: series[name], color: 0}]}) : null;
  const roles = ROLES.filter(([role]) => has(`roles.${role}.busy`)).map(([role, title]) => chart({title, x, unit, small: true, format: percent,
    stack: [['busy', 'busy', 2], ['device_wait', 'waits for a device', 4], ['idle', 'waits', 7]].map(([key, name, color]) => ({name, color, y: series[`roles.${role}.${key}`] || []}))}));
  const rates = RATES.map(([name, title]) => small(title, name)).filter(Boolean), learner = LEARNER.map(([name, title]) => small(title, name)).filter(Boolean);
  const drawn = new Set(['reward', 'ok', 'age_mean', 'age_largest', ...LEARNER.map(p => p[0]), ...RATES.map(p => p[0])]);
  const others = Object.keys(series).filter(name => !drawn.has(name) && !/^roles\.\w+\.(busy|idle|device_wait)$/.test(name) && has(name));
  const grid = (title, charts) => charts.length ? [el('h3', {}, title), el('div', {class: 'charts narrow'}, charts)] : [];
  if (x.length === 0) return section('curves', 'Curves', nothing('No step was made yet.'));
  return section('curves', 'Curves', el('div', {class: 'charts'}, list), grid("Where each role's time goes", roles), grid('Rates', rates), grid('Learner', learner),
    others.length ? folding('more curves', `${many(others.length, 'more curve')} of metrics.jsonl`, () => [el('div', {class: 'charts narrow'}, others.map(name => small(name, name)))]) : null);
}

const COUNTS = [{title: 'samples', of: r => r.samples, number: true}, {title: 'judged', of: r => r.judged, number: true},
  {title: 'right', of: r => r.judged ? r.ok / r.judged : null, show: percent, number: true}, {title: 'mean reward', of: r => r.reward, show: v => isNumber(v) ? v.toFixed(2) : '–', number: true},
  {title: 'best speed-up', of: r => r.best_e2, show: v => isNumber(v) ? times(v / 100) : '–', number: true}];

function tasks(page) {
  const name = {title: 'task', of: r => r.chain, show: (chain, r) => el('span', {title: r.id}, el('span', {class: 'mono'}, chain), r.held_out ? el('span', {class: 'faint'}, ' (held out)') : null)};
  if (page.tasks.length === 0) return section('tasks', 'Tasks', nothing('No sample was issued yet.'));
  return section('tasks', 'Tasks', el('h3', {}, 'Families'), table('families', [{title: 'family', of: r => r.family}, {title: 'tasks', of: r => r.tasks, number: true}, ...COUNTS], page.families, 10),
    el('h3', {}, 'Tasks, fastest kernel first'), table('tasks', [name, {title: 'family', of: r => r.family}, ...COUNTS], page.tasks, 10),
    page.tasks_in_all > page.tasks.length ? nothing(`${page.tasks_in_all - page.tasks.length} more tasks are left out.`) : null);
}

function verdictLine(verdict) {
  if (!verdict) return 'its verdict cannot be read';
  const time = verdict.time && verdict.time.log_ratio_e9, all = [verdict.verdict, verdict.confirmed ? 'confirmed' : 'not confirmed', verdict.protocol, verdict.device_class];
  if (time && time.length === 3) all.splice(1, 0, `95 % interval ${Math.exp(time[0] / 1e9).toFixed(2)} to ${Math.exp(time[2] / 1e9).toFixed(2)} x`);
  if (isNumber(verdict.claim_e2)) all.splice(1, 0, `measured ${times(verdict.claim_e2 / 100)}, capped while it is not confirmed`);
  if (verdict.baseline && verdict.baseline.name) all.push(`over ${verdict.baseline.name}`);
  return all.filter(Boolean).join(' · ');
}
function kernels(page) {
  if (page.kernels.length === 0) return section('kernels', 'Best kernels', nothing('No kernel was right and timed yet.'));
  return section('kernels', 'Best kernels', el('p', {class: 'faint small'}, 'The fastest kernel of each of the best tasks, of samples of the run.'), page.kernels.map((kernel, i) => folding('kernel ' + kernel.sample,
    [el('b', {}, `${i + 1}. ${times(kernel.speedup_e2 / 100)}`), ' ', el('span', {class: 'mono'}, kernel.chain), el('span', {class: 'faint'}, ` sample ${kernel.sample}`)], () => [
      kernel.problem ? el('div', {class: 'note problem'}, kernel.problem) : null, el('p', {class: 'small'}, verdictLine(kernel.verdict)),
      kernel.source ? el('pre', {class: 'source'}, kernel.source) : null,
      folding('verdict ' + kernel.sample, 'the whole verdict', () => [el('pre', {}, JSON.stringify(kernel.verdict, null, 2))])].filter(Boolean))));
}

function counted(name, title, counts, explain) {
  const rows = Object.entries(counts).sort((a, b) => isNaN(a[0]) ? b[1] - a[1] : a[0] - b[0]), all = sum(counts);
  const columns = [{title, of: r => r[0], show: v => v.replaceAll('_', ' ')}, {title: 'samples', of: r => r[1], number: true}, {title: 'share', of: r => r[1] / all, show: percent, number: true}];
  if (explain) columns.push({title: 'what it means', of: r => explain[r[0]] || ''});
  return rows.length ? [el('h3', {}, name), table(name, columns, rows)] : [];
}
const samples = page => section('samples', 'Samples', page.samples.issued === 0 ? nothing('No sample was issued yet.') : null,
  el('div', {class: 'columns'}, el('div', {}, counted('Verdicts', 'verdict', page.verdicts)), el('div', {}, counted('States', 'state', page.samples.states)),
    el('div', {}, counted('Steps behind when used', 'steps', page.ages))), counted('Dropped, by reason', 'reason', page.drops, DROPPED));

const settings = page => section('settings', 'Configuration', page.settings.length ? [el('p', {class: 'faint small'}, 'Keys whose value is not the default.'),
  table('settings', [{title: 'key', of: r => r.key, show: v => el('code', {class: 'whole'}, v)}, {title: 'value', of: r => r.value, show: v => el('code', {}, v)},
    {title: 'default', of: r => r.default, show: v => el('code', {class: 'faint'}, v === '' ? 'empty' : v)}, {title: 'what it is', of: r => r.why}], page.settings)] : nothing('Every key has its default.'));

const closing = page => section('report', 'Closing report', page.report ? el('pre', {}, page.report) : nothing('There is none: it is made when the run has ended.'));

const runParts = page => [head(page), notes(page), tiles(page), curves(page), tasks(page), kernels(page), samples(page), settings(page), closing(page)];
const RUN_LINKS = [['curves', 'Curves'], ['tasks', 'Tasks'], ['kernels', 'Kernels'], ['samples', 'Samples'], ['settings', 'Configuration'], ['report', 'Report']];
