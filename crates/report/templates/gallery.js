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
    found.textContent = shown === cards.length ? '' : `${shown} of ${cards.length}`;
  }

  words.addEventListener('input', show);
  for (const { box } of cards) box.addEventListener('change', show);
  side.addEventListener('click', () => {
    side.setAttribute('aria-pressed', side.getAttribute('aria-pressed') === 'true' ? 'false' : 'true');
    show();
  });
  addEventListener('keydown', (event) => {
    if (event.key === '/' && document.activeElement !== words) {
      event.preventDefault();
      words.focus();
    } else if (event.key === 'Escape' && document.activeElement === words) {
      words.value = '';
      show();
    }
  });
  show();
})();
