// Search, and chosen runs side by side. Without this script the page shows all runs.
'use strict';
(() => {
  const words = document.getElementById('words');
  const side = document.getElementById('side');
  const found = document.getElementById('found');
  const cards = [...document.querySelectorAll('.card')].map((card) => ({
    card,
    box: card.querySelector('input'),
    // Figures hold many words of their own; what is searched is what the card says.
    text: [...card.querySelectorAll('h2, p, figcaption')].map((it) => it.textContent).join(' ').toLowerCase(),
  }));

  function show() {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = cards.filter(({ box }) => box.checked);
    side.disabled = chosen.length < 2;
    const beside = side.getAttribute('aria-pressed') === 'true' && !side.disabled;
    if (!beside) side.setAttribute('aria-pressed', 'false');
    document.body.classList.toggle('beside', beside);
    document.body.style.setProperty('--chosen', Math.min(chosen.length, 4));
    let shown = 0;
    for (const { card, box, text } of cards) {
      const has = wanted.every((word) => text.includes(word));
      card.hidden = beside ? !box.checked : !has;
      shown += card.hidden ? 0 : 1;
    }
    const parts = [];
    if (shown < cards.length) parts.push(`${shown} of ${cards.length}`);
    if (chosen.length > 0) parts.push(`${chosen.length} chosen`);
    found.textContent = parts.join(', ');
  }

  function setBeside(beside) {
    side.setAttribute('aria-pressed', beside ? 'true' : 'false');
    show();
  }

  const isBeside = () => side.getAttribute('aria-pressed') === 'true';

  // A search is over all runs.
  words.addEventListener('input', () => setBeside(false));
  for (const { box } of cards) box.addEventListener('change', show);
  side.addEventListener('click', () => setBeside(!isBeside()));
  addEventListener('keydown', (event) => {
    const isInSearch = document.activeElement === words;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '/' && !isInSearch) {
      event.preventDefault();
      words.focus();
    } else if (event.key === 'b' && !isInSearch && !side.disabled) {
      setBeside(!isBeside());
    } else if (event.key === 'Escape') {
      if (isInSearch) words.value = '';
      setBeside(false);
    }
  });
  show();
})();
