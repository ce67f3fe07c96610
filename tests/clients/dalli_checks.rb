# Checks dalli: every command of its client, in its binary and its meta mode.

require 'dalli'

$passed = 0
$failed = []

def check(name, actual, expected = true)
  if actual == expected
    $passed += 1
  else
    $failed << "#{name}: #{actual.inspect} instead of #{expected.inspect}"
  end
end

def commands(client)
  check('flush', client.flush_all, [true])
  check('get of nothing', client.get('a'), nil)
  check('set', client.set('a', 'one').is_a?(Integer))
  check('get', client.get('a'), 'one')
  check('add of a present key', client.add('a', 'two'), false)
  check('add', client.add('b', 'two', nil, raw: true).is_a?(Integer))
  check('replace', client.replace('b', 'new', nil, raw: true).is_a?(Integer))
  check('replace of nothing', [nil, false, 0].include?(client.replace('c', 'new')))
  check('append', client.append('b', 'er'))
  check('prepend', client.prepend('b', 're'))
  check('get of the parts', client.get('b', raw: true), 'renewer')
  check('object', client.set('o', { 'list' => [1, 'two'] }).is_a?(Integer))
  check('get of the object', client.get('o'), { 'list' => [1, 'two'] })
  check('incr of nothing', client.incr('m', 1), nil)
  check('incr with a first value', client.incr('n', 5, nil, 10), 10)
  check('incr', client.incr('n', 5), 15)
  check('decr', client.decr('n', 20), 0)
  check('touch', client.touch('a', 1000))
  check('touch of nothing', client.touch('c', 1000), nil)
  check('gat', client.gat('a', 1000), 'one')
  check('cas', client.cas('a') { |value| "#{value} more" }.is_a?(Integer))
  check('get after cas', client.get('a'), 'one more')
  many = (0...100).to_h { |number| ["many#{number}", number] }
  client.multi { many.each { |key, value| client.set(key, value) } }
  check('get_multi', client.get_multi(many.keys), many)
  check('fetch', client.fetch('f') { 'made' }, 'made')
  check('fetch once more', client.fetch('f') { 'again' }, 'made')
  check('delete', client.delete('a'))
  check('delete of nothing', [nil, false].include?(client.delete('a')))
  large = 'x' * 900_000
  check('large value', client.set('large', large).is_a?(Integer))
  check('get of the large value', client.get('large') == large)
  check('key with spaces', client.set('a b', 'c').is_a?(Integer))
  check('get of it', client.get('a b'), 'c')
  check('stats', client.stats.values.first['pid'].to_i.positive?)
  check('version', client.version.values.first, '1.6.45')
end

%i[binary meta].each do |protocol|
  client = Dalli::Client.new(ARGV[0], protocol: protocol, value_max_bytes: 1_000_000)
  begin
    commands(client)
  rescue StandardError => e
    $failed << "#{protocol}: #{e.class}: #{e.message}"
  end
  client.close
end
puts $failed
puts "#{$passed} passed, #{$failed.length} failed"
exit($failed.empty? ? 0 : 1)
