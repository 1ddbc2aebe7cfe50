from twigcast.cli import main

main()
