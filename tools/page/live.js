// Draws the page, and asks for what is new where it is served.
const POLL_MS = 5000;
const main = document.getElementById('page');
let page = JSON.parse(document.getElementById('data').textContent);
const told = el('span', {id: 'told', class: 'faint small'});
const follow = el('input', {type: 'checkbox', id: 'follow', checked: true});

function draw() {
  const at = window.scrollY;
  main.replaceChildren(...(page.kind === 'compare' ? compareParts(page) : runParts(page)).flat(9).filter(Boolean));
  window.scrollTo(0, at);
}
function links() {
  const list = page.kind === 'compare' ? COMPARE_LINKS : RUN_LINKS;
  document.getElementById('links').replaceChildren(...list.map(([id, title]) => el('a', {href: '#' + id}, title)),
    ...(page.live ? [el('span', {class: 'live'}, told, el('label', {class: 'small'}, follow, ' follow'))] : []));
}
let looking = false;
async function look() {
  if (!follow.checked || document.hidden || looking) return;
  looking = true;
  try {
    const token = new URLSearchParams(location.search).get('token');
    const answer = await fetch('data.json?since=' + page.revision, {cache: 'no-store', headers: token ? {Authorization: 'Bearer ' + token} : {}});
    if (answer.status === 200) { page = await answer.json(); draw(); }
    else if (answer.status !== 204) throw new Error('status ' + answer.status);
    told.textContent = 'looked at ' + new Date().toLocaleTimeString();
  } catch (error) {
    told.textContent = 'nobody answers (' + error.message + '); trying again';
  } finally {
    looking = false;
  }
}
links();
draw();
if (page.live) {
  told.textContent = 'live';
  setInterval(look, POLL_MS);
  document.addEventListener('visibilitychange', look);
}
